// Image files to pixels, compared with what Pillow decodes them to.
#include "image/decode.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "support/reference.h"
#include "support/sha256.h"

namespace phidias {
namespace {

std::vector<std::byte> file_bytes(const std::string& name) {
  const auto text = read_text_file(test::data("images/" + name));
  EXPECT_TRUE(text.ok()) << name;
  if (!text.ok()) return {};
  const auto* bytes = reinterpret_cast<const std::byte*>(text->data());
  return {bytes, bytes + text->size()};
}

class ImageFile : public testing::TestWithParam<const char*> {};

TEST_P(ImageFile, HasThePixelsThatPillowDecodes) {
  const auto text = read_text_file(test::data("images/pixels.json"));
  ASSERT_TRUE(text.ok());
  const Json expected = parse_json(*text)->at(GetParam());
  const auto image = decode_image(file_bytes(GetParam()), GetParam());
  ASSERT_TRUE(image.ok()) << image.error().to_string();
  EXPECT_EQ(image->width, expected["width"].get<uint32_t>());
  EXPECT_EQ(image->height, expected["height"].get<uint32_t>());
  EXPECT_EQ(test::sha256(image->bytes.data(), image->bytes.size()),
            expected["sha256"].get<std::string>());
}

TEST_P(ImageFile, CutOffAnywhereIsAnErrorThatNamesIt) {
  const auto whole = file_bytes(GetParam());
  // What follows the last pixel (end markers, padding) may be missing: Pillow reads such files,
  // too.
  constexpr size_t kTail = 24;
  for (size_t size = 0; size + kTail < whole.size(); size += 7) {
    const auto image = decode_image(std::span(whole).first(size), "photo");
    ASSERT_FALSE(image.ok()) << size << " of " << whole.size() << " bytes";
    EXPECT_EQ(image.error().place.file, "photo");
    EXPECT_TRUE(image.error().code == Code::kCorrupt || image.error().code == Code::kUnsupported);
  }
}

TEST_P(ImageFile, BeyondThePixelLimitIsRefusedBeforeDecoding) {
  const auto image = decode_image(file_bytes(GetParam()), "photo", {.pixels = 23 * 17 - 1});
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, Code::kCapacityExceeded);
  EXPECT_NE(image.error().message.find("23 x 17"), std::string::npos);
  EXPECT_TRUE(decode_image(file_bytes(GetParam()), "photo", {.pixels = 23 * 17}).ok());
}

INSTANTIATE_TEST_SUITE_P(Formats, ImageFile,
                         testing::Values("rgb.png", "rgba.png", "grey.png", "bilevel.png",
                                         "palette.png", "palette-transparent.png", "baseline.jpg",
                                         "progressive.jpg", "turned.jpg", "grey.jpg", "inks.jpg",
                                         "lossy.webp", "lossless-alpha.webp"),
                         [](const auto& file) {
                           std::string name = file.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

TEST(DecodeImage, HugeSizeInAHeaderTakesNoMemory) {
  // A PNG of a million columns and rows: the header alone.
  const unsigned char header[] = {0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0x00, 0x00, 0x00,
                                  0x0D, 0x49, 0x48, 0x44, 0x52, 0x00, 0x0F, 0x42, 0x40, 0x00, 0x0F,
                                  0x42, 0x40, 0x08, 0x02, 0x00, 0x00, 0x00, 0xD3, 0x0F, 0xAF, 0x2A,
                                  0x00, 0x00, 0x00, 0x00, 0x49, 0x44, 0x41, 0x54};
  const auto image = decode_image(std::as_bytes(std::span(header)), "bomb");
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, Code::kCapacityExceeded) << image.error().to_string();
}

TEST(DecodeImage, DamagedPixelsAreAnErrorInEveryFormat) {
  for (const char* name : {"rgb.png", "baseline.jpg", "lossless-alpha.webp"}) {
    auto bytes = file_bytes(name);
    for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 40; ++i) bytes[i] = std::byte{0xFF};
    const auto image = decode_image(bytes, name);
    ASSERT_FALSE(image.ok()) << name;
    EXPECT_EQ(image.error().code, Code::kCorrupt);
    EXPECT_TRUE(image.error().message.starts_with("the image is damaged: "));
  }
}

TEST(DecodeImage, OtherFormatsAndAnimationsAreUnsupported) {
  for (const char* name : {"other.gif", "animation.webp"}) {
    const auto image = decode_image(file_bytes(name), name);
    ASSERT_FALSE(image.ok()) << name;
    EXPECT_EQ(image.error().code, Code::kUnsupported);
  }
  EXPECT_EQ(decode_image({}, "empty").error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace phidias
