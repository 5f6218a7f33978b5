// The tiny vision checkpoint and what the reference computes with it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "phidias/engine.h"
#include "phidias/image.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias::test {

// Of each tensor's largest entry; two orders of summation in float32 differ by half of it.
inline constexpr double kRelative = 2e-5;

inline std::filesystem::path vision_folder() { return reference("models/phi3-vision"); }

// Largest difference in units of the expected tensor's largest entry.
inline double relative_distance(std::span<const float> actual, std::span<const float> expected) {
  double largest = 0;
  for (const float value : expected)
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  return scaled_distance(actual, expected, 1) * std::max(1.0, largest) / largest;
}

class VisionReference : public testing::Test {
 protected:
  void SetUp() override {
    PHIDIAS_NEEDS_REFERENCE(vision_folder());
    auto model = Model::load(vision_folder());
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    model_ = *model;
    cases_ = read_json(vision_folder() / "cases.json");
  }

  std::unique_ptr<Engine> engine(EngineOptions options = {.numerics = Numerics::kExact}) const {
    auto created = Engine::create(model_, options);
    EXPECT_TRUE(created.ok()) << created.error().to_string();
    return std::move(*created);
  }
  std::string image_file(const Json& index) const {
    return (vision_folder() / cases_["images"][index.get<size_t>()]["file"].get<std::string>())
        .string();
  }
  ImageHandle encoded(Engine& engine, const Json& index, const ImageOptions& options = {}) const {
    auto image = encode_image_file(engine, image_file(index), options);
    EXPECT_TRUE(image.ok()) << image.error().to_string();
    return image.ok() ? *image : nullptr;
  }
  std::vector<ImageHandle> images_of(Engine& engine, const Json& prompt) const {
    std::vector<ImageHandle> images;
    for (const Json& index : prompt["images"]) images.push_back(encoded(engine, index));
    return images;
  }
  // [[id, times], ...]
  static std::vector<TokenId> ids_of(const Json& runs) {
    std::vector<TokenId> ids;
    for (const Json& run : runs) ids.insert(ids.end(), run[1].get<size_t>(), run[0].get<TokenId>());
    return ids;
  }

  std::shared_ptr<const Model> model_;
  Json cases_;
};

}  // namespace phidias::test
