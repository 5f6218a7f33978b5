// The named values of an image's encoding, and the merged embeddings behind it.
#include "phidias/image_trace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "golden/vision/vision_reference.h"

namespace phidias {
namespace {

using test::VisionReference;

class ImageTraceReference : public VisionReference {
 protected:
  static std::vector<Read> reads(const std::vector<std::string>& paths) {
    std::vector<Read> all;
    for (const std::string& path : paths) {
      auto value = parse_value(path);
      EXPECT_TRUE(value.ok()) << value.error().to_string();
      if (value.ok()) all.push_back({std::move(*value)});
    }
    return all;
  }
  ImageTraced traced(Engine& engine, size_t image, const std::vector<std::string>& paths,
                     const Edits& edits = {}) const {
    auto result = trace_image_file(engine, image_file(Json(image)), reads(paths), edits);
    EXPECT_TRUE(result.ok()) << result.error().to_string();
    return result.ok() ? std::move(*result) : ImageTraced();
  }
  static Edits edits(const std::string& json) {
    auto parsed = edits_from_json(json);
    EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
    return parsed.ok() ? *parsed : Edits();
  }
};

// Every sixteenth position of each tile.
std::vector<float> thinned(const Tensor& tensor) {
  std::vector<float> kept;
  const size_t width = tensor.shape[2];
  for (size_t tile = 0; tile < tensor.shape[0]; ++tile) {
    for (size_t row = 0; row < tensor.shape[1]; row += 16) {
      const float* from = tensor.floats.data() + (tile * tensor.shape[1] + row) * width;
      kept.insert(kept.end(), from, from + width);
    }
  }
  return kept;
}

TEST_F(ImageTraceReference, TheTowersValuesAreServedByName) {
  const auto engine = this->engine();
  for (size_t i = 0; i < cases_["images"].size(); ++i) {
    const Json& entry = cases_["images"][i];
    const std::filesystem::path file = entry["file"].get<std::string>();
    const auto expected = test::read_tensors(test::vision_folder() / file.parent_path() /
                                             (file.stem().string() + ".safetensors"));
    const auto result = traced(*engine, i,
                               {"vision.patch_embeddings", "vision.layers[*].block_output",
                                "vision.merged_patches", "vision.image_features"});
    ASSERT_EQ(result.traced.entries.size(), 5U);
    const auto tiles = entry["tiles"].get<uint64_t>() + 1;
    const auto tokens = entry["num_img_tokens"].get<uint64_t>();
    for (const auto& [name, stored] : {std::pair("vision.patch_embeddings", "embeddings_sub16"),
                                       {"vision.layers.0.block_output", "layer0_sub16"},
                                       {"vision.layers.1.block_output", "layer1_sub16"}}) {
      const Tensor* tensor = result.traced.find(name);
      ASSERT_NE(tensor, nullptr) << name;
      EXPECT_EQ(tensor->shape, (std::vector<uint64_t>{tiles, 577, 32})) << name;
      EXPECT_LT(test::relative_distance(thinned(*tensor), expected.floats.at(stored)),
                test::kRelative)
          << file << " " << name;
    }
    const Tensor& merged = *result.traced.find("vision.merged_patches");
    EXPECT_EQ(merged.shape, (std::vector<uint64_t>{1, tokens, 128}));
    const Tensor& features = *result.traced.find("vision.image_features");
    EXPECT_EQ(features.shape, (std::vector<uint64_t>{1, tokens, 64}));
    EXPECT_LT(test::relative_distance(features.floats, expected.floats.at("image_features")),
              test::kRelative);
    EXPECT_EQ(features.floats, result.image->values);
  }
}

TEST_F(ImageTraceReference, LookingChangesNoBitAndPartsAreParts) {
  const auto engine = this->engine();
  const ImageHandle plain = encoded(*engine, Json(0));
  const auto whole = traced(*engine, 0, {"vision.layers[0].block_output"});
  EXPECT_EQ(whole.image->values, plain->values);
  const auto part =
      traced(*engine, 0,
             {"vision.layers[0].block_output[at=3, channel=5]", "vision.image_features[at=last]"});
  const Tensor& all = *whole.traced.find("vision.layers.0.block_output");
  const Tensor& some = part.traced.of(0);
  ASSERT_EQ(some.shape, (std::vector<uint64_t>{3, 1, 1}));
  for (size_t tile = 0; tile < 3; ++tile)
    EXPECT_EQ(some.floats[tile], all.floats[(tile * 577 + 3) * 32 + 5]);
  const auto last = plain->row(plain->tokens - 1);
  EXPECT_EQ(part.traced.of(1).floats, std::vector<float>(last, last + plain->hidden_size));
}

TEST_F(ImageTraceReference, AnEditReachesWhatFollowsAndNothingElse) {
  const auto engine = this->engine();
  const ImageHandle plain = encoded(*engine, Json(0));
  // The class token is dropped behind the last layer that runs.
  const auto class_token =
      traced(*engine, 0, {},
             edits(R"([{"value": "vision.layers[1].block_output", "op": "zero", "at": [0]}])"));
  EXPECT_EQ(class_token.image->values, plain->values);
  EXPECT_EQ(class_token.traced.edits.at(0).rows, 1U);
  const auto earlier =
      traced(*engine, 0, {},
             edits(R"([{"value": "vision.layers[0].block_output", "op": "zero", "at": [0]}])"));
  EXPECT_NE(earlier.image->values, plain->values);

  const auto features =
      traced(*engine, 0, {"vision.image_features"},
             edits(R"([{"value": "vision.image_features", "op": "set", "tensor": 0.5, "at": [2]},
                       {"value": "vision.image_features", "op": "scale", "by": 2, "at": [2]}])"));
  const size_t width = plain->hidden_size;
  std::vector<float> expected = plain->values;
  std::fill_n(expected.begin() + static_cast<ptrdiff_t>(2 * width), width, 1.0F);
  EXPECT_EQ(features.image->values, expected);
  EXPECT_EQ(features.traced.of(0).floats, expected);
  EXPECT_EQ(encoded(*engine, Json(0)), plain) << "what was edited is kept for nobody else";
}

// Along the gradient the metric climbs by its norm; an image's row stands in the place of an
// embedding, which has no part in anything then.
TEST_F(ImageTraceReference, GradientsReachTheRowsOfImages) {
  const auto engine = this->engine();
  const Json& prompt = cases_["prompts"][0];
  const auto ids = ids_of(prompt["ids_as_runs"]);
  const auto images = images_of(*engine, prompt);
  const auto run_with = [&](const Edits& edits) {
    Trace trace(*engine, ids, {.images = images});
    trace.read(Read{kValues.merged_embeddings, Read::Moment::kGradient});
    trace.read(Read{kValues.token_embeddings, Read::Moment::kGradient});
    trace.edit(edits);
    trace.metric(logit_difference(11, 22));
    auto traced = trace.run();
    EXPECT_TRUE(traced.ok()) << traced.error().to_string();
    return traced.ok() ? std::move(*traced) : Traced();
  };
  const Traced here = run_with({});
  ASSERT_EQ(here.entries.size(), 2U);
  const Tensor& merged = here.of(0);
  const Tensor& embeddings = here.of(1);
  const auto width = static_cast<ptrdiff_t>(merged.shape[2]);
  double of_images = 0;
  double square = 0;
  for (size_t i = 0; i < merged.floats.size(); ++i) {
    const bool image = ids[i / static_cast<size_t>(width)] < 0;
    EXPECT_EQ(embeddings.floats[i], image ? 0 : merged.floats[i]);
    square += double{merged.floats[i]} * double{merged.floats[i]};
    if (image) of_images += std::abs(double{merged.floats[i]});
  }
  EXPECT_GT(of_images, 0);
  const double length = std::sqrt(square);
  Tensor direction = merged;
  for (float& entry : direction.floats) entry = static_cast<float>(entry / length);
  constexpr double kStep = 2e-3;
  const auto metric_at = [&](double step) {
    return run_with({kValues.merged_embeddings += step * Operand(direction)}).metric;
  };
  const double slope = (metric_at(kStep) - metric_at(-kStep)) / (2 * kStep);
  EXPECT_NEAR(slope, length, 0.01 * length);
}

TEST_F(ImageTraceReference, MergedEmbeddingsAreTheReferencesAndCanBeWritten) {
  const auto engine = this->engine();
  for (const Json& prompt : cases_["prompts"]) {
    const auto expected =
        test::read_tensors(test::vision_folder() / prompt["file"].get<std::string>());
    Trace trace(*engine, ids_of(prompt["ids_as_runs"]), {.images = images_of(*engine, prompt)});
    const auto merged = trace.read(kValues.merged_embeddings);
    const auto run = trace.run();
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    std::vector<float> kept;
    for (const int64_t position : expected.integers.at("positions")) {
      const auto row = (*run)[merged].floats.begin() + position * 64;
      kept.insert(kept.end(), row, row + 64);
    }
    EXPECT_LT(test::relative_distance(kept, expected.floats.at("merged_embeddings")),
              test::kRelative);
  }
  Trace trace(*engine, {1, 5, 7});
  trace.edit(edits(R"([{"value": "merged_embeddings", "op": "zero", "at": [1]}])"));
  const auto embeddings = trace.read(kValues.token_embeddings);
  const auto input = trace.read(kValues.layers[0].layer_input);
  const auto run = trace.run();
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  std::vector<float> zeroed = (*run)[embeddings].floats;
  std::fill_n(zeroed.begin() + 64, 64, 0.0F);
  EXPECT_EQ((*run)[input].floats, zeroed);
}

TEST_F(ImageTraceReference, WhatDoesNotFitIsToldWithItsPlace) {
  const auto engine = this->engine();
  const auto message = [&](const std::vector<std::string>& paths, const Edits& edits = {}) {
    const auto result = trace_image_file(*engine, image_file(Json(0)), reads(paths), edits);
    EXPECT_FALSE(result.ok());
    return result.ok() ? std::string() : result.error().to_string();
  };
  EXPECT_NE(message({"layers[0].layer_output"}).find("give it to Trace"), std::string::npos);
  EXPECT_NE(message({"vision.layers[2].block_output"}).find("layers 0 to 1"), std::string::npos);
  EXPECT_NE(message({"vision.patch_embeddings[at=577]"}).find("vision.patch_embeddings"),
            std::string::npos);
  EXPECT_NE(message({"vision.image_features[at=457]"}).find("vision.image_features"),
            std::string::npos);
  EXPECT_NE(message({}, edits(R"([{"value": "vision.image_features", "op": "add",
                                   "tensor": [1, 2, 3]}])"))
                .find("edit 1, vision.image_features"),
            std::string::npos);
  Trace trace(*engine, {1, 5, 7});
  trace.read(kValues.vision.image_features);
  const auto run = trace.run();
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.error().message.find("trace_image"), std::string::npos);

  const auto folder = test::reference("models/mini-4k");
  PHIDIAS_NEEDS_REFERENCE(folder);
  const auto blind = Engine::create(*Model::load(folder));
  ASSERT_TRUE(blind.ok());
  const auto nothing =
      trace_image_file(**blind, image_file(Json(0)), reads({"vision.image_features"}));
  ASSERT_FALSE(nothing.ok());
  EXPECT_NE(nothing.error().message.find("sees no images"), std::string::npos);
}

}  // namespace
}  // namespace phidias
