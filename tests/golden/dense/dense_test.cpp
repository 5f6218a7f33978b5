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
  check_generation([](std::span<const float> got, std::span<const float> want) {
    const double distance = test::scaled_distance(got, want, kUnit);
    return distance < kStepLogits ? testing::AssertionSuccess()
                                  : testing::AssertionFailure() << "off by " << distance;
  });
}

TEST_P(DenseReference, ChunksNeighboursThreadsAndPassSizeChangeNoBit) { check_same_bits({}); }

INSTANTIATE_TEST_SUITE_P(Variants, DenseReference,
                         testing::Values("mini-4k", "medium-4k", "mini-128k", "medium-128k-su",
                                         "phi-4-mini", "phi-4", "wide-bf16"),
                         test::folder_name);

}  // namespace
}  // namespace phidias
