// Tiny checkpoints of every dense variant against the reference implementation's numbers, in exact
// numerics.
#include <gtest/gtest.h>

#include "phidias/engine.h"
#include "phidias/generation.h"
#include "support/reference.h"
#include "support/reference_model.h"
#include "support/tensors.h"

namespace phidias {
namespace {

// Logits: 4e-5, times the largest logit over 8 where that is more than 1; step logits: 6e-5
// likewise. Two orders of summation in float32 differ by 1.9e-5 already.
constexpr double kLogits = 4e-5;
constexpr double kStepLogits = 6e-5;
constexpr double kUnit = 8;

class DenseReference : public test::ReferenceModel {};

TEST_P(DenseReference, LogitsOfOnePassAreTheReferences) {
  const auto engine = this->engine();
  size_t compared = 0;
  for (const Json& entry : cases_["values"]) {
    const auto path = folder_ / entry["file"].get<std::string>();
    if (!std::filesystem::exists(path)) continue;  // the copy in the project holds a few only
    const auto expected = test::read_tensors(path).floats.at("logits");
    const auto actual = logits(*engine, entry["ids"].get<std::vector<TokenId>>());
    ASSERT_EQ(actual.size(), expected.size());
    const double distance = test::scaled_distance(actual, expected, kUnit);
    EXPECT_LT(distance, kLogits) << path;
    RecordProperty("distance_" + path.stem().string(), std::to_string(distance));
    ++compared;
  }
  EXPECT_GT(compared, 0U);
}

TEST_P(DenseReference, GreedyTokensAndStepLogitsAreTheReferencesUnderEveryPolicy) {
  const auto path = folder_ / "generate.safetensors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "this variant has no generated tokens";
  const auto expected = test::read_tensors(path);
  for (const Json& entry : cases_["generate"]) {
    const auto prefix = entry["prefix"].get<std::string>();
    for (const auto& [name, policy] :
         {std::pair<std::string, RopeSwitch>{"", RopeSwitch::kReprefill},
          {"keep.", RopeSwitch::kKeep},
          {"short.", RopeSwitch::kShort},
          {"long.", RopeSwitch::kLong}}) {
      const auto tokens = expected.integers.find(prefix + "." + name + "tokens");
      if (tokens == expected.integers.end()) continue;
      const auto& steps = expected.floats.at(prefix + "." + name + "step_logits");
      const auto engine = this->engine();
      std::vector<TokenId> ids = entry["ids"].get<std::vector<TokenId>>();
      const SequenceId sequence =
          engine->open({.rope_switch = policy, .prompt_tokens = static_cast<uint32_t>(ids.size())});
      std::vector<float> row_logits;
      size_t fed = 0;
      for (size_t step = 0; step < tokens->second.size(); ++step) {
        std::vector<Row> rows;
        for (; fed < ids.size(); ++fed)
          rows.push_back({ids[fed], sequence, static_cast<uint32_t>(fed), fed + 1 == ids.size()});
        const Status status = engine->step(rows, [&](size_t, std::span<const float> row) {
          row_logits.assign(row.begin(), row.end());
        });
        ASSERT_TRUE(status.ok()) << status.error().to_string();
        const auto best = static_cast<TokenId>(
            std::max_element(row_logits.begin(), row_logits.end()) - row_logits.begin());
        ASSERT_EQ(best, tokens->second[step]) << prefix << " " << name << " step " << step;
        const std::span<const float> reference(steps.data() + step * row_logits.size(),
                                               row_logits.size());
        EXPECT_LT(test::scaled_distance(row_logits, reference, kUnit), kStepLogits)
            << prefix << " " << name << " step " << step;
        ids.push_back(best);
      }
    }
  }
}

TEST_P(DenseReference, ChunksNeighboursThreadsAndPassSizeChangeNoBit) {
  const auto ids = cases_["values"].back()["ids"].get<std::vector<TokenId>>();
  const auto plain = this->engine({.threads = 1});
  const auto expected = logits(*plain, ids);
  for (const size_t chunk : {1U, 3U, 7U, 16U})
    EXPECT_EQ(logits(*plain, ids, chunk), expected) << "chunks of " << chunk;
  for (const size_t threads : {2U, 3U})
    EXPECT_EQ(logits(*this->engine({.threads = threads}), ids), expected) << threads << " threads";
  EXPECT_EQ(logits(*this->engine({.step_rows = 5}), ids), expected) << "passes of 5 rows";
  // Beside two other sequences, one of them on the other side of a LongRoPE switch, in interleaved
  // rows.
  const auto crowded = this->engine();
  const SequenceId own = crowded->open(
      {.rope_switch = RopeSwitch::kReprefill, .prompt_tokens = static_cast<uint32_t>(ids.size())});
  const SequenceId short_one =
      crowded->open({.rope_switch = RopeSwitch::kReprefill, .prompt_tokens = 4});
  const SequenceId long_one =
      crowded->open({.rope_switch = RopeSwitch::kReprefill, .prompt_tokens = 30});
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 40; ++i) {
    if (i < 4) rows.push_back({static_cast<TokenId>(5 + i), short_one, i, i % 2 == 0});
    if (i < ids.size()) rows.push_back({ids[i], own, i, true});
    if (i < 30) rows.push_back({static_cast<TokenId>(40 + i), long_one, i, i == 29});
  }
  std::vector<float> actual(expected.size());
  size_t at = 0;
  const Status status = crowded->step(rows, [&](size_t row, std::span<const float> values) {
    if (rows[row].sequence != own) return;
    std::copy(values.begin(), values.end(),
              actual.begin() + static_cast<ptrdiff_t>(rows[row].position * values.size()));
    ++at;
  });
  ASSERT_TRUE(status.ok()) << status.error().to_string();
  EXPECT_EQ(at, ids.size());
  EXPECT_EQ(actual, expected) << "beside others";
}

INSTANTIATE_TEST_SUITE_P(Variants, DenseReference,
                         testing::Values("mini-4k", "medium-4k", "mini-128k", "medium-128k-su",
                                         "phi-4-mini", "phi-4", "wide-bf16"),
                         [](const auto& variant) {
                           std::string name = variant.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace phidias
