#include "engine/categorical.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace phidias {
namespace {

std::vector<float> sawtooth(size_t count) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i) logits[i] = static_cast<float>(i * 37 % 101) / 16;
  return logits;
}

// numpy in float64 over the bits of jax.random.bits(key, (4, 1000)).
TEST(Categorical, DrawsOneStreamOverTheWholeGrid) {
  const auto tokens = categorical({{7, 11}}, sawtooth(4000), 1000, 0.7, 0);
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(*tokens, (std::vector<TokenId>{281, 610, 544, 857}));
}

// Key (0, 46) gives u = 0 at token 9926 of a row of 32064.
TEST(Categorical, ZeroUniformDoesNotForceItsToken) {
  constexpr size_t kVocabulary = 32064;
  constexpr TokenId kUnlucky = 9926;
  const RandomKey key{{0, 46}};
  ASSERT_EQ(uniform_23(bits_at(key, kUnlucky), UniformMapping::kRaw), 0);

  std::vector<float> logits(kVocabulary, 0.0f);
  logits[17] = 60;          // far above what finite noise can bridge
  logits[kUnlucky] = -100;  // and this far below
  const auto raw = categorical(key, logits, kVocabulary, 1, 0, UniformMapping::kRaw);
  ASSERT_TRUE(raw.ok());
  EXPECT_EQ(raw->front(), kUnlucky)
      << "the raw mapping no longer shows its defect: the test proves nothing";
  const auto safe = categorical(key, logits, kVocabulary, 1, 0);
  ASSERT_TRUE(safe.ok());
  EXPECT_EQ(safe->front(), 17);
}

TEST(Categorical, NearZeroTemperatureIsGreedyAndZeroExactlySo) {
  std::vector<float> logits = sawtooth(1000);
  logits[345] = 6.5f;
  logits[346] = 6.5f;
  for (const uint32_t seed : {1u, 2u, 3u}) {
    EXPECT_EQ(categorical({{0, seed}}, logits, 1000, 0, 0)->front(), 345);
    logits[346] = 6.4f;
    EXPECT_EQ(categorical({{0, seed}}, logits, 1000, 1e-310, 0)->front(), 345);
    logits[346] = 6.5f;
  }
}

TEST(Categorical, BannedTokensAreNeverDrawn) {
  std::vector<float> logits(64, -std::numeric_limits<float>::infinity());
  logits[40] = -3;
  for (uint32_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(categorical({{0, seed}}, logits, 64, 5, 0)->front(), 40);
}

TEST(Categorical, RefusesWhatItCannotDraw) {
  const std::vector<float> logits = sawtooth(10);
  EXPECT_EQ(categorical({}, logits, 10, -1, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(categorical({}, logits, 10, std::nan(""), 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(categorical({}, logits, 3, 1, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(categorical({}, logits, 0, 1, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(categorical({}, std::vector<float>{0, std::nanf("")}, 2, 1, 0).error().code,
            Code::kNonFinite);
}

}  // namespace
}  // namespace phidias
