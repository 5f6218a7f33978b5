// Random models of published shapes and the benchmark over them.
#include "phidias/bench.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "phidias/engine.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

const RandomModelOptions kOneLayer = {
    .shape = "phi-3-mini", .weights = "q4_0", .layers = 1, .threads = 2};

// Of the second of two tokens.
std::vector<float> logits_of(std::shared_ptr<const Model> model) {
  auto engine = Engine::create(std::move(model), {.threads = 2, .context = 16});
  EXPECT_TRUE(engine.ok());
  const SequenceId sequence = (*engine)->open({.prompt_tokens = 2});
  const Row rows[] = {{5, sequence, 0, false}, {900, sequence, 1, true}};
  std::vector<float> row;
  EXPECT_TRUE((*engine)
                  ->step(rows,
                         [&](size_t, std::span<const float> values) {
                           row.assign(values.begin(), values.end());
                         })
                  .ok());
  return row;
}

TEST(Bench, ARandomModelHasTheSizesOfItsShape) {
  const auto model = random_model(kOneLayer);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const ModelInfo& info = (*model)->info();
  EXPECT_EQ(info.num_layers, 1U);
  EXPECT_EQ(info.hidden_size, 3072U);
  EXPECT_EQ(info.window, 2047U);
  // One layer's matrices and norms, embedding and head, and the final norm.
  EXPECT_EQ(info.parameters, 113252352U + 2 * 32064U * 3072U + 3072U);
}

TEST(Bench, ARandomModelIsTheSameInAFile) {
  const auto model = random_model(kOneLayer);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "random.gguf";
  const Status saved = save_random_model(kOneLayer, file);
  ASSERT_TRUE(saved.ok()) << saved.error().to_string();
  const auto again = Model::load(file);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  const auto values = logits_of(*model);
  EXPECT_EQ(logits_of(*again), values);
  EXPECT_GT(*std::max_element(values.begin(), values.end()),
            *std::min_element(values.begin(), values.end()));
}

TEST(Bench, ASavedModelOfExpertsIsTheOneInMemory) {
  const RandomModelOptions options = {
      .shape = "phi-3.5-moe", .weights = "q4", .layers = 1, .threads = 2};
  const auto model = random_model(options);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "random.gguf";
  const Status saved = save_random_model(options, file);
  ASSERT_TRUE(saved.ok()) << saved.error().to_string();
  const auto again = Model::load(file);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  const auto logits = logits_of(*model);
  EXPECT_EQ(logits_of(*again), logits);
}

TEST(Bench, AModelThatGgufHasNoLayoutForIsNotSaved) {
  const test::TemporaryFolder folder;
  const Status saved =
      save_random_model({.shape = "phi-3-vision", .layers = 1}, folder.path() / "random.gguf");
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, Code::kUnsupported);
}

TEST(Bench, WhatDoesNotFitIsRefusedWithTheFigures) {
  const auto model = random_model({.shape = "phi-3.5-moe", .weights = "f32"});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, Code::kOutOfMemory);
  EXPECT_NE(model.error().message.find("1674"), std::string::npos) << model.error().message;
}

TEST(Bench, AnUnknownShapeListsTheKnown) {
  const auto model = random_model({.shape = "phi-9"});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, Code::kInvalidArgument);
  for (const std::string_view shape : model_shapes())
    EXPECT_NE(model.error().message.find(shape), std::string::npos) << shape;
}

TEST(Bench, EveryMetricIsReportedWithItsLimit) {
  const auto model = random_model(kOneLayer);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  BenchOptions options;
  options.engine.threads = 2;
  options.engine.context = 64;
  options.prompt_tokens = 8;
  options.new_tokens = 2;
  options.depths = {0, 16};
  options.batches = {1, 3};
  options.repetitions = 2;
  const auto report = bench(*model, options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_GT(report->before.read_bytes_s, 0);
  EXPECT_GT(report->before.integer_ops_s, 0);
  EXPECT_GT(report->before.float_ops_s, 0);
  EXPECT_EQ(report->bytes_per_token, (*model)->info().bytes_per_token);
  const auto find = [&](std::string_view metric, uint32_t depth, uint32_t batch) {
    const auto at = std::find_if(report->rows.begin(), report->rows.end(), [&](const BenchRow& r) {
      return r.metric == metric && r.depth == depth && r.batch == batch;
    });
    EXPECT_NE(at, report->rows.end()) << metric;
    return at == report->rows.end() ? BenchRow{} : *at;
  };
  for (const BenchRow& row :
       {find("first_token_s", 0, 1), find("prefill_tok_s", 0, 1), find("decode_tok_s", 0, 1),
        find("decode_tok_s", 16, 1), find("batch_decode_tok_s", 0, 3), find("peak_rss_bytes", 0, 1),
        find("peak_rss_bytes", 16, 1), find("peak_rss_bytes", 0, 3)}) {
    EXPECT_GT(row.median, 0) << row.metric;
    EXPECT_LE(row.min, row.median) << row.metric;
    EXPECT_GE(row.max, row.median) << row.metric;
    EXPECT_GT(row.limit, 0) << row.metric;
    EXPECT_GT(row.share_of_limit, 0) << row.metric;
  }
  EXPECT_GT(find("max_abs_diff", 0, 1).median, 0);
  options.depths = {100};
  const auto deep = bench(*model, options);
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.error().code, Code::kCapacityExceeded);
}

}  // namespace
}  // namespace phidias
