// The decoder with images in its prompts: logits, greedy tokens, steps across the LongRoPE switch.
#include <gtest/gtest.h>

#include <set>

#include "api/model_impl.h"
#include "engine/stepper.h"
#include "golden/vision/vision_reference.h"
#include "model/taps.h"
#include "phidias/convert.h"
#include "phidias/generation.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

using test::VisionReference;

class VisionModel : public VisionReference {
 protected:
  // Logits of all positions, fed in chunks of `chunk` (0: at once).
  static std::vector<float> logits(Engine& engine, const std::vector<TokenId>& ids,
                                   const std::vector<ImageHandle>& images, size_t chunk = 0) {
    std::vector<float> all;
    const SequenceId sequence =
        engine.open({.prompt_tokens = static_cast<uint32_t>(ids.size()), .images = images});
    for (size_t at = 0; at < ids.size();) {
      const size_t end = chunk == 0 ? ids.size() : std::min(ids.size(), at + chunk);
      std::vector<Row> rows;
      for (; at < end; ++at) rows.push_back({ids[at], sequence, static_cast<uint32_t>(at), true});
      const Status status = engine.step(rows, [&](size_t, std::span<const float> row) {
        all.insert(all.end(), row.begin(), row.end());
      });
      EXPECT_TRUE(status.ok()) << status.error().to_string();
    }
    engine.close(sequence);
    return all;
  }
};

TEST_F(VisionModel, LogitsAreTheReferences) {
  const auto engine = this->engine();
  const size_t vocab = engine->vocab();
  for (const Json& prompt : cases_["prompts"]) {
    const auto expected =
        test::read_tensors(test::vision_folder() / prompt["file"].get<std::string>());
    const auto ids = ids_of(prompt["ids_as_runs"]);
    const auto& stored = expected.integers.at("input_ids");
    ASSERT_TRUE(std::equal(ids.begin(), ids.end(), stored.begin(), stored.end()));
    const auto all = logits(*engine, ids, images_of(*engine, prompt));
    std::vector<float> kept;
    for (const int64_t position : expected.integers.at("positions")) {
      const auto row = all.begin() + position * static_cast<ptrdiff_t>(vocab);
      kept.insert(kept.end(), row, row + static_cast<ptrdiff_t>(vocab));
    }
    EXPECT_LT(test::relative_distance(kept, expected.floats.at("logits")), test::kRelative)
        << prompt["name"];
  }
}

// Rows of every position at the sites that the reference keeps.
class ValueCollector : public RunTaps {
 public:
  explicit ValueCollector(std::span<const int64_t> positions)
      : positions_(positions.begin(), positions.end()) {}

  SiteMask sites(size_t layer) const override {
    return mask_of(Site::kLayerOutput) | mask_of(Site::kFinalNormOutput) |
           (layer == 0 ? mask_of(Site::kLayerInput) : 0);
  }
  void visit(Site site, size_t layer, const SiteRows& rows) override {
    const std::string name = site == Site::kLayerInput ? "merged_embeddings"
                             : site == Site::kLayerOutput
                                 ? "layers." + std::to_string(layer) + ".layer_output"
                                 : "final_norm_output";
    for (size_t r = 0; r < rows.rows; ++r) {
      if (!positions_.contains(static_cast<int64_t>(rows.position + r))) continue;
      const float* row = rows.data + r * rows.stride;
      kept[name].insert(kept[name].end(), row, row + rows.width);
    }
  }
  std::map<std::string, std::vector<float>> kept;

 private:
  std::set<int64_t> positions_;
};

TEST_F(VisionModel, MergedEmbeddingsAndLayersAreTheReferences) {
  const auto engine = this->engine();
  for (const Json& prompt : cases_["prompts"]) {
    const auto expected =
        test::read_tensors(test::vision_folder() / prompt["file"].get<std::string>());
    const auto ids = ids_of(prompt["ids_as_runs"]);
    ValueCollector collector(expected.integers.at("positions"));
    const SequenceId sequence = engine->open(
        {.prompt_tokens = static_cast<uint32_t>(ids.size()), .images = images_of(*engine, prompt)});
    engine->stepper().attach(sequence, &collector);
    std::vector<Row> rows;
    for (uint32_t i = 0; i < ids.size(); ++i) rows.push_back({ids[i], sequence, i, true});
    const Status status = engine->step(rows, [](size_t, std::span<const float>) {});
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    engine->close(sequence);
    EXPECT_EQ(collector.kept.size(), 2U + model_->info().num_layers);
    for (const auto& [name, values] : collector.kept) {
      ASSERT_EQ(values.size(), expected.floats.at(name).size()) << name;
      EXPECT_LT(test::relative_distance(values, expected.floats.at(name)), test::kRelative)
          << prompt["name"] << " " << name;
    }
  }
}

TEST_F(VisionModel, GreedyTokensAndStepLogitsAreTheReferencesUnderBothPolicies) {
  const auto expected = test::read_tensors(test::vision_folder() / "generate.safetensors");
  for (const Json& prompt : cases_["prompts"]) {
    for (const auto& [policy_name, policy] :
         {std::pair<std::string, RopeSwitch>{"", RopeSwitch::kReprefill},
          {"keep.", RopeSwitch::kKeep}}) {
      const std::string name = prompt["name"].get<std::string>() + "." + policy_name;
      const auto& tokens = expected.integers.at(name + "tokens");
      const auto& steps = expected.floats.at(name + "step_logits");
      const auto engine = this->engine();
      std::vector<TokenId> ids = ids_of(prompt["ids_as_runs"]);
      const SequenceId sequence = engine->open({.rope_switch = policy,
                                                .prompt_tokens = static_cast<uint32_t>(ids.size()),
                                                .images = images_of(*engine, prompt)});
      std::vector<float> all;
      std::vector<float> last;
      size_t fed = 0;
      for (const int64_t token : tokens) {
        std::vector<Row> rows;
        for (; fed < ids.size(); ++fed)
          rows.push_back({ids[fed], sequence, static_cast<uint32_t>(fed), fed + 1 == ids.size()});
        const Status status = engine->step(
            rows, [&](size_t, std::span<const float> row) { last.assign(row.begin(), row.end()); });
        ASSERT_TRUE(status.ok()) << status.error().to_string();
        ASSERT_EQ(std::max_element(last.begin(), last.end()) - last.begin(), token) << name;
        all.insert(all.end(), last.begin(), last.end());
        ids.push_back(static_cast<TokenId>(token));
      }
      EXPECT_LT(test::relative_distance(all, steps), test::kRelative) << name;
    }
  }
}

TEST_F(VisionModel, ChunksThreadsAndNeighboursChangeNoBit) {
  const Json prompt = cases_["prompts"][0];
  const auto ids = ids_of(prompt["ids_as_runs"]);
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const auto plain = engine({.threads = 1, .numerics = numerics});
    const auto images = images_of(*plain, prompt);
    const auto expected = logits(*plain, ids, images);
    for (const size_t chunk : {7U, 100U})
      EXPECT_EQ(logits(*plain, ids, images, chunk), expected) << "chunks of " << chunk;
    const auto others = engine({.threads = 3, .numerics = numerics, .step_rows = 50});
    EXPECT_EQ(logits(*others, ids, images_of(*others, prompt)), expected) << "3 threads";
    // Beside a sequence with another image, whose rows lie between.
    const auto other = encoded(*plain, Json(3));
    const SequenceId own = plain->open({.images = images});
    const SequenceId neighbour = plain->open({.images = {other}});
    std::vector<Row> rows;
    for (uint32_t i = 0; i < ids.size(); ++i) {
      rows.push_back({ids[i], own, i, true});
      if (i < other->tokens) rows.push_back({-1, neighbour, i, false});
    }
    std::vector<float> actual;
    const Status status = plain->step(rows, [&](size_t, std::span<const float> row) {
      actual.insert(actual.end(), row.begin(), row.end());
    });
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    EXPECT_EQ(actual, expected) << "beside another image";
  }
}

TEST_F(VisionModel, ImagesDoNotDependOnTheOrderInWhichTheyCame) {
  const auto engine = this->engine({.numerics = Numerics::kExact, .image_cache = 0});
  const ImageHandle first = encoded(*engine, Json(0));
  const ImageHandle other = encoded(*engine, Json(2));
  const ImageHandle again = encoded(*engine, Json(0));
  EXPECT_NE(first, again) << "nothing was kept";
  EXPECT_EQ(first->values, again->values);
  EXPECT_NE(first->content, other->content);
}

TEST_F(VisionModel, AnImageThatIsKnownIsNotEncodedAgain) {
  const auto engine = this->engine();
  size_t tiles = 0;
  const ImageOptions counting{.progress = [&tiles](size_t, size_t) { return ++tiles > 0; }};
  const ImageHandle first = encoded(*engine, Json(0), counting);
  EXPECT_EQ(tiles, 3U);
  EXPECT_EQ(encoded(*engine, Json(0), counting), first);
  EXPECT_EQ(tiles, 3U);
  ImageOptions finer = counting;
  finer.crops = 16;
  EXPECT_EQ(encoded(*engine, Json(0), finer)->tokens, 2353U);
  EXPECT_EQ(tiles, 3U + 16U);
}

TEST_F(VisionModel, WhatATapWritesIsWhatGoesOnAndStaysItsOwn) {
  const auto engine = this->engine();
  const ImageHandle plain = encoded(*engine, Json(0));
  size_t seen = 0;
  const ImageHandle changed = encoded(*engine, Json(0), {.tap = [&seen](const ImageView& view) {
    ++seen;
    if (view.site == ImageSite::kMerged) std::fill_n(view.data, view.width, 0.0F);
  }});
  // Per tile the embeddings and two layers, then the merged lines and the features.
  EXPECT_EQ(seen, 3U * 3 + 2);
  const size_t width = plain->hidden_size;
  EXPECT_NE(std::vector(changed->row(0), changed->row(1)),
            std::vector(plain->row(0), plain->row(1)));
  EXPECT_TRUE(std::equal(changed->values.begin() + static_cast<ptrdiff_t>(width),
                         changed->values.end(),
                         plain->values.begin() + static_cast<ptrdiff_t>(width)));
  EXPECT_NE(changed->content, plain->content);
  EXPECT_EQ(encoded(*engine, Json(0)), plain);
}

TEST_F(VisionModel, ProgressCanEndTheWork) {
  const auto engine = this->engine();
  const auto image = encode_image_file(*engine, image_file(Json(0)),
                                       {.progress = [](size_t done, size_t) { return done < 1; }});
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, Code::kCancelled);
}

TEST_F(VisionModel, AConversationGoesOnBehindTheImageThatItShowed) {
  const auto engine = this->engine();
  const Json prompt = cases_["prompts"][0];
  GenerateRequest request;
  request.prompt = ids_of(prompt["ids_as_runs"]);
  request.images = images_of(*engine, prompt);
  request.max_tokens = 1;
  request.sequence = engine->open({});
  const auto first = generate(*engine, request);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_EQ(first->cached_tokens, 0U);
  const auto again = generate(*engine, request);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->cached_tokens, request.prompt.size() - 1);
  // Another image of as many tokens at the same place: nothing from there on may be reused.
  auto changed = std::make_shared<ImageFeatures>(*request.images.front());
  changed->content = "another";
  changed->values[0] += 1;
  request.images = {changed};
  const auto other = generate(*engine, request);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->cached_tokens, 22U);
}

TEST_F(VisionModel, ImageTokensThatCannotBeServedAreErrorsOfTheRequest) {
  const auto engine = this->engine();
  const ImageHandle image = encoded(*engine, Json(0));
  auto code_of = [&](std::vector<TokenId> ids, std::vector<ImageHandle> images) {
    GenerateRequest request;
    request.prompt = std::move(ids);
    request.images = std::move(images);
    const auto result = generate(*engine, request);
    EXPECT_FALSE(result.ok());
    return result.ok() ? std::string() : result.error().to_string();
  };
  EXPECT_NE(code_of({1, -1, 5}, {}).find("there are no images"), std::string::npos);
  EXPECT_NE(code_of({1, -2, 5}, {image}).find("there are only 1"), std::string::npos);
  EXPECT_NE(code_of({1, -1, -1, 5}, {image}).find("2 of them stand in a row"), std::string::npos);
  EXPECT_NE(code_of({1, 5}, {nullptr}).find("image 1 was not encoded"), std::string::npos);
}

TEST_F(VisionModel, FilesThatAreNoImagesAndModelsThatSeeNoneAreErrors) {
  const auto engine = this->engine();
  const auto config = encode_image_file(*engine, (test::vision_folder() / "config.json").string());
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().code, Code::kUnsupported);
  EXPECT_EQ(encode_image_file(*engine, "nowhere.png").error().code, Code::kNotFound);
  const auto folder = test::reference("models/mini-4k");
  PHIDIAS_NEEDS_REFERENCE(folder);
  const auto blind = Engine::create(*Model::load(folder));
  ASSERT_TRUE(blind.ok());
  const auto image = encode_image_file(**blind, image_file(Json(0)));
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, Code::kUnsupported);
}

TEST_F(VisionModel, AQuantizedFileSeesAsTheFolderQuantizedAtLoadWithTheTowerInEightBits) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "vision.gguf";
  const auto report = write_gguf(test::vision_folder(), file, {.recipe = "q4_0"});
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  const auto stored = Model::load(file);
  ASSERT_TRUE(stored.ok()) << stored.error().to_string();
  const auto at_load = Model::load(test::vision_folder(), {.weights = "q4_0"});
  ASSERT_TRUE(at_load.ok()) << at_load.error().to_string();
  const auto formats = [](const Model& model) {
    std::set<Format> all;
    const_cast<VisionWeights&>(*model.impl().weights.vision)
        .for_each_matrix([&](const Matrix& matrix) { all.insert(matrix.blocks.front().format); });
    return all;
  };
  EXPECT_EQ(formats(**stored), (std::set<Format>{Format::kF32, Format::kQ8_0}));
  EXPECT_EQ(formats(**at_load), formats(**stored));
  EXPECT_EQ((*stored)->info().vision->crops, model_->info().vision->crops);
  EXPECT_EQ((*stored)->stop_ids(), model_->stop_ids());
  const auto features = [&](const std::shared_ptr<const Model>& model) {
    const auto engine = Engine::create(model);
    EXPECT_TRUE(engine.ok());
    return encoded(**engine, Json(0))->values;
  };
  EXPECT_EQ(features(*stored), features(*at_load));
}

TEST_F(VisionModel, QuantizedWeightsStayNear) {
  const auto engine = this->engine();
  const auto exact = encoded(*engine, Json(0));
  const auto quantized = Model::load(test::vision_folder(), {.weights = "q8_0"});
  ASSERT_TRUE(quantized.ok()) << quantized.error().to_string();
  const auto fast = Engine::create(*quantized);
  ASSERT_TRUE(fast.ok());
  const auto image = encode_image_file(**fast, image_file(Json(0)));
  ASSERT_TRUE(image.ok()) << image.error().to_string();
  EXPECT_LT(test::relative_distance((*image)->values, exact->values), 0.05);
  EXPECT_NE((*image)->values, exact->values);
}

}  // namespace
}  // namespace phidias
