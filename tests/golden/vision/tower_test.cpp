// The vision tower, the features and the places where they can be looked at.
#include <gtest/gtest.h>

#include "api/model_impl.h"
#include "base/thread_pool.h"
#include "golden/vision/vision_reference.h"
#include "image/decode.h"
#include "image/hd_transform.h"
#include "model/vision/encoder.h"

namespace phidias {
namespace {

using test::VisionReference;

// Every sixteenth position of each tile, as the reference keeps them.
struct Collector {
  void operator()(const ImageView& rows) {
    if (rows.site != ImageSite::kEmbeddings && rows.site != ImageSite::kLayerOutput) return;
    auto& values =
        kept[rows.site == ImageSite::kEmbeddings ? "embeddings_sub16"
                                                 : "layer" + std::to_string(rows.layer) + "_sub16"];
    for (size_t row = 0; row < rows.rows; row += 16)
      values.insert(values.end(), rows.data + row * rows.width, rows.data + (row + 1) * rows.width);
  }
  std::map<std::string, std::vector<float>> kept;
};

class VisionTowerReference : public VisionReference {
 protected:
  std::vector<float> features(const std::string& file, size_t threads, const ImageTap& tap,
                              Numerics numerics = Numerics::kExact) const {
    const auto& impl = model_->impl();
    const auto bytes = MappedFile::open(file);
    EXPECT_TRUE(bytes.ok());
    const auto image = decode_image((*bytes)->bytes(), file);
    EXPECT_TRUE(image.ok());
    const VisionSpec& spec = *impl.spec.vision;
    const auto geometry = hd_geometry(image->width, image->height, spec.side, spec.crops);
    EXPECT_TRUE(geometry.ok());
    const ImageTiles tiles =
        make_tiles(hd_transform(*image, *geometry), spec.side, spec.statistics);
    ThreadPool pool(threads);
    RunContext context(best_table(), pool, numerics);
    return encode_tiles(spec, *impl.weights.vision, tiles, context, {}, tap);
  }
};

TEST_F(VisionTowerReference, EmbeddingsLayersAndFeaturesAreTheReferences) {
  for (const Json& entry : cases_["images"]) {
    const auto path = test::vision_folder() / entry["file"].get<std::string>();
    const auto expected =
        test::read_tensors(path.parent_path() / (path.stem().string() + ".safetensors"));
    Collector collector;
    const auto actual = features(path.string(), 2, std::ref(collector));
    ASSERT_EQ(actual.size(), expected.floats.at("image_features").size()) << path;
    EXPECT_LT(test::relative_distance(actual, expected.floats.at("image_features")),
              test::kRelative)
        << path;
    EXPECT_EQ(collector.kept.size(), 3U);
    for (const auto& [name, values] : collector.kept) {
      ASSERT_EQ(values.size(), expected.floats.at(name).size()) << path << " " << name;
      EXPECT_LT(test::relative_distance(values, expected.floats.at(name)), test::kRelative)
          << path << " " << name;
    }
  }
}

TEST_F(VisionTowerReference, ThreadsAndLookingChangeNoBit) {
  const std::string file = image_file(0);
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const auto expected = features(file, 1, {}, numerics);
    Collector collector;
    EXPECT_EQ(features(file, 3, std::ref(collector), numerics), expected);
    EXPECT_EQ(features(file, 2, {}, numerics), expected);
  }
}

TEST_F(VisionTowerReference, FastNumericsStayNearExact) {
  const std::string file = image_file(1);
  const auto exact = features(file, 2, {});
  const auto fast = features(file, 2, {}, Numerics::kFast);
  // Float weights: f32 throughout, but another order in the attention.
  EXPECT_LT(test::relative_distance(fast, exact), test::kRelative);
}

}  // namespace
}  // namespace phidias
