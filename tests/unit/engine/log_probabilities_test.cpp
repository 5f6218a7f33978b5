#include "engine/log_probabilities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace phidias {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(size_t count, uint32_t seed, double scale) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i) {
    logits[i] = static_cast<float>(
        scale * (uniform_23(bits_at({{0, seed}}, i), UniformMapping::kHalfStep) - 0.5));
  }
  return logits;
}

// C116: plain probabilities stood where logarithms belong.
TEST(LogProbabilities, AreNaturalLogarithmsThatSumToOne) {
  const std::vector<float> logits = random_logits(32064, 1, 30);
  std::vector<float> row(logits.size());
  ASSERT_TRUE(log_softmax(logits, row, 0).ok());
  double sum = 0;
  for (const float value : row) {
    EXPECT_LE(value, 0);
    sum += std::exp(double{value});
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  const auto result = log_probabilities(logits, 4321, 0, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_FLOAT_EQ(static_cast<float>(result->chosen.log_probability), row[4321]);
  EXPECT_TRUE(result->best.empty());
}

TEST(LogProbabilities, EqualTheClosedForm) {
  const std::vector<float> logits{0, std::log(2.0f),
                                  std::log(5.0f)};  // probabilities 1/8, 2/8, 5/8
  const auto result = log_probabilities(logits, 1, 2, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->chosen.id, 1);
  EXPECT_NEAR(result->chosen.log_probability, std::log(0.25), 1e-7);
  ASSERT_EQ(result->best.size(), 2u);
  EXPECT_EQ(result->best[0].id, 2);
  EXPECT_NEAR(result->best[0].log_probability, std::log(0.625), 1e-7);
  EXPECT_EQ(result->best[1].id, 1);
}

TEST(LogProbabilities, BestTokensComeLowestIdFirstOnTies) {
  const std::vector<float> logits{1, 3, 2, 3, 2, 3, 2};
  const auto result = log_probabilities(logits, 0, 4, 0);
  ASSERT_TRUE(result.ok());
  std::vector<TokenId> ids;
  for (const auto& entry : result->best) ids.push_back(entry.id);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 3, 5, 2}));
}

TEST(LogProbabilities, ListNoMoreThanThePossibleTokens) {
  const std::vector<float> logits{-kInfinity, 1, -kInfinity, 2};
  const auto result = log_probabilities(logits, 0, 20, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->chosen.log_probability, -kInfinity);
  ASSERT_EQ(result->best.size(), 2u);
  EXPECT_EQ(result->best[0].id, 3);
}

TEST(LogProbabilities, HugeLogitsDoNotOverflow) {
  const std::vector<float> logits{3e38f, -3e38f, 3e38f};
  const auto result = log_probabilities(logits, 2, 3, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->chosen.log_probability, -std::log(2.0), 1e-12);
  EXPECT_TRUE(std::isfinite(result->best[2].log_probability));
}

TEST(LogProbabilities, NegativeLogLikelihoodIsTheNegatedValue) {
  const std::vector<float> logits = random_logits(200064, 2, 20);
  const auto nll = negative_log_likelihood(logits, 199999, 7);
  ASSERT_TRUE(nll.ok());
  EXPECT_EQ(*nll, -log_probabilities(logits, 199999, 0, 7)->chosen.log_probability);
  const auto certain = negative_log_likelihood(std::vector<float>{5, -kInfinity}, 0, 0);
  EXPECT_EQ(*certain, 0);
  EXPECT_FALSE(std::signbit(*certain));
}

TEST(LogProbabilities, RefuseBadLogitsAndUnknownTokens) {
  std::vector<float> logits{1, 2, std::nanf("")};
  const auto bad = log_probabilities(logits, 0, 1, 12);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, Code::kNonFinite);
  EXPECT_NE(bad.error().message.find("position 12"), std::string::npos);
  EXPECT_EQ(negative_log_likelihood(logits, 1, 0).error().code, Code::kNonFinite);
  EXPECT_EQ(log_softmax(logits, logits, 0).error().code, Code::kNonFinite);
  logits[2] = 0;
  EXPECT_EQ(log_probabilities(logits, 3, 1, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(negative_log_likelihood(logits, -1, 0).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace phidias
