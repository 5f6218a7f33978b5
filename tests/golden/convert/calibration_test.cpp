// Quantization that has seen what enters each matrix, on whole models.
#include <gtest/gtest.h>

#include "phidias/convert.h"
#include "phidias/engine.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

std::vector<TokenId> token_ids(size_t count) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>(4 + (i * i * 31 + i) % 300));
  return ids;
}

std::vector<float> logits_of(const fs::path& file, std::span<const TokenId> ids) {
  auto model = Model::load(file);
  EXPECT_TRUE(model.ok()) << file;
  auto engine = Engine::create(*model, {.threads = 2, .numerics = Numerics::kExact});
  EXPECT_TRUE(engine.ok());
  const SequenceId sequence = (*engine)->open();
  std::vector<Row> rows;
  for (size_t i = 0; i < ids.size(); ++i)
    rows.push_back({ids[i], sequence, static_cast<uint32_t>(i), true});
  std::vector<float> all;
  EXPECT_TRUE((*engine)
                  ->step(rows,
                         [&](size_t, std::span<const float> row) {
                           all.insert(all.end(), row.begin(), row.end());
                         })
                  .ok());
  return all;
}

double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

TEST(Calibration, LogitsStayNearerToTheModelsOwn) {
  const fs::path source = test::reference("models/wide-bf16");
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const std::vector<TokenId> ids = token_ids(640);
  const std::span<const TokenId> held_out = std::span(ids).last(64);
  const std::vector<float> expected = logits_of(source, held_out);
  for (const char* recipe : {"q4", "q4_0"}) {
    const auto distance = [&](const char* name, const CalibrationText& text) {
      const fs::path file = folder.path() / name;
      const auto report =
          write_gguf(source, file, {.recipe = recipe, .threads = 2, .calibration = text});
      EXPECT_TRUE(report.ok()) << report.error().to_string();
      return squared_distance(logits_of(file, held_out), expected);
    };
    const double plain = distance("plain.gguf", {});
    const double calibrated =
        distance("calibrated.gguf", {.ids = {ids.begin(), ids.end() - 64}, .window = 64});
    EXPECT_LT(calibrated, 0.9 * plain) << recipe;
  }
}

TEST(Calibration, IsTheSameForAnyNumberOfThreads) {
  const fs::path source = test::reference("models/mini-4k");
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const auto logits = [&](size_t threads) {
    const fs::path file = folder.path() / std::to_string(threads);
    const auto report = write_gguf(source, file,
                                   {.recipe = "q4_0",
                                    .threads = threads,
                                    .calibration = {.ids = token_ids(128), .window = 32}});
    EXPECT_TRUE(report.ok()) << report.error().to_string();
    return logits_of(file, token_ids(16));
  };
  const std::vector<float> one = logits(1);
  EXPECT_EQ(one, logits(3));
}

TEST(Calibration, ATextThatIsTooShortIsRefusedAndNothingIsWritten) {
  const fs::path source = test::reference("models/mini-4k");
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "m.gguf";
  const auto report =
      write_gguf(source, file, {.recipe = "q4", .calibration = {.ids = {5, 6}, .window = 32}});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(fs::exists(file));
}

TEST(Calibration, CanBeInterrupted) {
  const fs::path source = test::reference("models/mini-4k");
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const auto report = write_gguf(source, folder.path() / "m.gguf",
                                 {.recipe = "q4",
                                  .calibration = {.ids = token_ids(128), .window = 32},
                                  .progress = [](const ConversionProgress&) { return false; }});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kCancelled);
}

}  // namespace
}  // namespace phidias
