// Files to pixels as the reference's image processor makes them: to the bit.
#include <gtest/gtest.h>

#include "image/decode.h"
#include "image/hd_transform.h"
#include "image/resize.h"
#include "image/tiles.h"
#include "support/reference.h"
#include "support/sha256.h"
#include "support/tensors.h"

namespace phidias {
namespace {

constexpr uint32_t kSide = 336;
constexpr ChannelStatistics kStatistics{.mean = {0.48145466F, 0.4578275F, 0.40821073F},
                                        .deviation = {0.26862954F, 0.26130258F, 0.27577711F}};

std::filesystem::path folder() { return test::reference("models/phi3-vision"); }

// U8 tensors of a safetensors file as images, by name.
std::map<std::string, RgbImage> read_images(const std::filesystem::path& path) {
  std::map<std::string, RgbImage> images;
  const auto file = MappedFile::open(path);
  EXPECT_TRUE(file.ok());
  if (!file.ok()) return images;
  const auto bytes = (*file)->bytes();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const auto header =
      parse_json(std::string_view(reinterpret_cast<const char*>(bytes.data()) + 8, length));
  EXPECT_TRUE(header.ok());
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__" || entry["dtype"] != "U8") continue;
    RgbImage image(entry["shape"][1].get<uint32_t>(), entry["shape"][0].get<uint32_t>());
    std::memcpy(image.bytes.data(),
                bytes.data() + 8 + length + entry["data_offsets"][0].get<size_t>(),
                image.bytes.size());
    images[name] = std::move(image);
  }
  return images;
}

TEST(VisionImages, ResizeEqualsPillowsToTheByte) {
  const auto path = folder() / "resize.safetensors";
  PHIDIAS_NEEDS_REFERENCE(path);
  const auto images = read_images(path);
  size_t compared = 0;
  for (const auto& [name, input] : images) {
    if (!name.starts_with("in.")) continue;
    const RgbImage& expected = images.at("out." + name.substr(3));
    EXPECT_EQ(resize_bilinear(input, expected.width, expected.height).bytes, expected.bytes)
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, 8U);
}

TEST(VisionImages, GeometryIsTheReferencesForEveryShape) {
  const auto path = folder() / "prompts.json";
  PHIDIAS_NEEDS_REFERENCE(path);
  const Json prompts = test::read_json(path);
  size_t compared = 0;
  for (const Json& table : prompts["geometry"]) {
    for (const Json& row : table["rows"]) {
      const auto geometry = hd_geometry(row[0].get<uint32_t>(), row[1].get<uint32_t>(), kSide,
                                        table["num_crops"].get<uint32_t>());
      ++compared;
      if (row[4] == 0) {
        EXPECT_FALSE(geometry.ok()) << row.dump();
        continue;
      }
      ASSERT_TRUE(geometry.ok()) << row.dump();
      EXPECT_EQ(geometry->transposed, row[2] == 1) << row.dump();
      EXPECT_EQ(geometry->resized_width, row[3]) << row.dump();
      EXPECT_EQ(geometry->resized_height, row[4]) << row.dump();
      EXPECT_EQ(geometry->padding_before, row[5]) << row.dump();
      EXPECT_EQ(geometry->padding_after, row[6]) << row.dump();
      EXPECT_EQ(geometry->rows * kSide, row[7]) << row.dump();
      EXPECT_EQ(geometry->columns * kSide, row[8]) << row.dump();
    }
  }
  EXPECT_EQ(compared, 90U);
}

class VisionImage : public testing::TestWithParam<size_t> {};

TEST_P(VisionImage, PixelsPaddingAndTilesAreTheReferencesToTheBit) {
  PHIDIAS_NEEDS_REFERENCE(folder());
  const Json entry = test::read_json(folder() / "cases.json")["images"][GetParam()];
  const auto path = folder() / entry["file"].get<std::string>();
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto image = decode_image((*file)->bytes(), path.string());
  ASSERT_TRUE(image.ok()) << image.error().to_string();
  EXPECT_EQ(test::sha256(image->bytes.data(), image->bytes.size()), entry["decoded_rgb_sha256"]);
  const auto geometry = hd_geometry(image->width, image->height, kSide, 4);
  ASSERT_TRUE(geometry.ok());
  EXPECT_EQ(geometry->tiles(), entry["tiles"]);
  const RgbImage hd = hd_transform(*image, *geometry);
  EXPECT_EQ(test::sha256(hd.bytes.data(), hd.bytes.size()), entry["hd_rgb_sha256"]);
  const ImageTiles tiles = make_tiles(hd, kSide, kStatistics);
  const size_t size = tiles.tile(0).size();
  EXPECT_EQ(test::sha256(tiles.values.data() + size, (tiles.count() - 1) * size * sizeof(float)),
            entry["tiles_f32_sha256"]);

  const auto expected =
      test::read_tensors(path.parent_path() / (path.stem().string() + ".safetensors"));
  const auto& shrunk = expected.floats.at("global_sub4");
  size_t at = 0;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t y = 1; y < kSide; y += 4) {
      for (size_t x = 2; x < kSide; x += 4)
        ASSERT_NEAR(tiles.tile(0)[(channel * kSide + y) * kSide + x], shrunk[at++], 6e-7);
    }
  }
  EXPECT_EQ(at, shrunk.size());
}

INSTANTIATE_TEST_SUITE_P(Files, VisionImage, testing::Range(size_t{0}, size_t{5}));

}  // namespace
}  // namespace phidias
