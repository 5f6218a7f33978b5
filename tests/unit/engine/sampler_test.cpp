#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"
#include "unit/engine/allocation_count.h"

namespace phidias {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

std::vector<float> random_logits(size_t count, uint32_t seed, double scale) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i) {
    logits[i] = static_cast<float>(
        scale * gumbel(uniform_23(bits_at({{0, seed}}, i), UniformMapping::kHalfStep)));
  }
  return logits;
}

TokenId must_pick(const std::vector<float>& logits, const SamplingOptions& options,
                  const SamplingHistory& history = {}, uint32_t choice = 0, uint32_t position = 0) {
  SamplerScratch scratch;
  const auto token = pick(logits, options, history, choice, position, scratch);
  EXPECT_TRUE(token.ok()) << token.error().to_string();
  return token.ok() ? *token : -1;
}

std::vector<double> adjusted(const std::vector<float>& logits, const SamplingOptions& options,
                             const SamplingHistory& history) {
  SamplerScratch scratch;
  const auto view = adjust_logits(logits, options, history, scratch);
  EXPECT_TRUE(std::all_of(scratch.occurrences.begin(), scratch.occurrences.end(),
                          [](auto n) { return n == 0; }));
  return {view.begin(), view.end()};
}

std::vector<TokenId> kept(const std::vector<float>& logits, const SamplingOptions& options) {
  SamplerScratch scratch;
  const auto candidates = filter_candidates(logits, options, {}, 0, scratch);
  EXPECT_TRUE(candidates.ok());
  std::vector<TokenId> ids;
  for (const Candidate& candidate : *candidates) ids.push_back(candidate.id);
  return ids;
}

double chi_square(const std::vector<size_t>& counts, const std::vector<double>& probabilities) {
  const double total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * probabilities[i];
    sum += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
  }
  return sum;
}

// --- Greedy ---

// C110: temperature 0 divided by zero.
TEST(Sampler, TemperatureZeroIsTheFirstMaximum) {
  EXPECT_EQ(must_pick({1, 7, 3, 7, 7}, {}), 1);
  EXPECT_EQ(must_pick({-3e38f, 3e38f, 3e38f, -3e38f}, {}), 1);
  std::vector<float> long_row(1003, -1);
  long_row[997] = long_row[1001] = 4;
  EXPECT_EQ(must_pick(long_row, {}), 997);
  SamplingOptions filtered{.top_k = 3, .top_p = 0.1, .typical_p = 0.1, .repetition_penalty = 1.0};
  EXPECT_EQ(must_pick(long_row, filtered), 997);
}

TEST(Sampler, GreedyFollowsPenaltiesAndBias) {
  const std::vector<TokenId> answer{2};
  EXPECT_EQ(must_pick({0, 1, 3, 2}, {.frequency_penalty = 2}, {{}, answer}), 3);
  EXPECT_EQ(must_pick({0, 1, 3, 2}, {.logit_bias = {{0, 2}, {0, 2}}}), 0);
  EXPECT_EQ(must_pick({0, 1, 3, 2}, {.logit_bias = {{2, -INFINITY}, {3, -100}}}), 1);
}

TEST(Sampler, TinyTemperatureIsGreedyWithoutOverflow) {
  const std::vector<float> logits{-3e38f, 2, 3e38f, 2.9e38f, -kInfinity};
  for (const double temperature : {1e-6, 1e-300, std::numeric_limits<double>::denorm_min()}) {
    for (uint32_t position = 0; position < 20; ++position) {
      EXPECT_EQ(must_pick(logits, {.temperature = temperature}, {}, 0, position), 2);
    }
  }
}

// --- Penalties ---

// C201: the penalty made repeats with negative logits likelier.
TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  const std::vector<TokenId> seen{0, 1};
  EXPECT_EQ(adjusted({2, -2, 1}, {.repetition_penalty = 2}, {seen, {}}),
            (std::vector<double>{1, -4, 1}));
}

// C202: padding was punished too; here, ids that no vocabulary has.
TEST(Sampler, OnlyTokensOfTheVocabularyArePenalised) {
  const std::vector<TokenId> prompt{-1, 3, 1 << 30};
  EXPECT_EQ(adjusted({2, 2, 2}, {.repetition_penalty = 2}, {prompt, prompt}),
            (std::vector<double>{2, 2, 2}));
}

// C204: the penalty was applied once per occurrence.
TEST(Sampler, RepetitionPenaltyAppliesOncePerDistinctToken) {
  const std::vector<TokenId> prompt{1, 1, 1};
  const std::vector<TokenId> answer{1, 1};
  EXPECT_EQ(adjusted({0, 4}, {.repetition_penalty = 2}, {prompt, answer}),
            (std::vector<double>{0, 2}));
}

// C205: penalties counted the prompt.
TEST(Sampler, PresenceAndFrequencyCountTheAnswerOnly) {
  const std::vector<TokenId> prompt{0, 0};
  const std::vector<TokenId> answer{1, 2, 1};
  const SamplingOptions options{.presence_penalty = 0.5, .frequency_penalty = 0.25};
  EXPECT_EQ(adjusted({4, 4, 4}, options, {prompt, answer}), (std::vector<double>{4, 3, 3.25}));
}

TEST(Sampler, RepetitionRangeCanLeaveOutThePromptAndOldTokens) {
  const std::vector<TokenId> prompt{0, 1};
  const std::vector<TokenId> answer{2, 3};
  const std::vector<float> logits{4, 4, 4, 4};
  SamplingOptions options{.repetition_penalty = 2, .repetition_range = RepetitionRange::kAnswer};
  EXPECT_EQ(adjusted(logits, options, {prompt, answer}), (std::vector<double>{4, 4, 2, 2}));
  options.repetition_last = 1;
  EXPECT_EQ(adjusted(logits, options, {prompt, answer}), (std::vector<double>{4, 4, 4, 2}));
  options.repetition_range = RepetitionRange::kPromptAndAnswer;
  options.repetition_last = 3;
  EXPECT_EQ(adjusted(logits, options, {prompt, answer}), (std::vector<double>{4, 2, 2, 2}));
  options.repetition_last = 9;
  EXPECT_EQ(adjusted(logits, options, {prompt, answer}), (std::vector<double>{2, 2, 2, 2}));
}

// --- Filters ---

// C237: top_k 0 always gave token 0.
TEST(Sampler, TopKZeroIsOff) {
  const std::vector<float> logits{0, 1, 2, 3, 4, 9, 5, 6};
  EXPECT_EQ(must_pick(logits, {.temperature = 0.01, .top_k = 0}), 5);
  EXPECT_EQ(kept(logits, {.temperature = 1}).size(), logits.size());
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_k = 100}).size(), logits.size());
}

TEST(Sampler, TiesAtTheCutOffAreAllKept) {
  const std::vector<float> logits{1, 5, 1, 3, 3, 1};
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_k = 2}), (std::vector<TokenId>{1, 3, 4}));
  const std::vector<float> level(10, 2.0f);
  EXPECT_EQ(kept(level, {.temperature = 1, .top_p = 0.05}).size(), 10u);
  EXPECT_EQ(kept(level, {.temperature = 1, .min_p = 1}).size(), 10u);
  EXPECT_EQ(kept(level, {.temperature = 1, .typical_p = 0.05}).size(), 10u);
}

TEST(Sampler, TopPKeepsWhileTheMassBeforeIsLess) {
  // Probabilities 1/2, 1/4, 1/8, 1/8.
  const float step = std::log(2.0f);
  const std::vector<float> logits{-2 * step, 0, -step, -2 * step};
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_p = 1e-9}), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_p = 0.49}), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_p = 0.51}), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_p = 0.76}), (std::vector<TokenId>{0, 1, 2, 3}));
  EXPECT_EQ(kept(logits, {.temperature = 0.5, .top_p = 0.76}), (std::vector<TokenId>{1, 2}));
}

TEST(Sampler, FiltersSeeWhatTheOneBeforeLeft) {
  const std::vector<float> logits{std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_p = 0.5}), (std::vector<TokenId>{0, 1}));
  // After top-k the two have 4/7 and 3/7.
  EXPECT_EQ(kept(logits, {.temperature = 1, .top_k = 2, .top_p = 0.5}), (std::vector<TokenId>{0}));
  EXPECT_EQ(kept(logits, {.temperature = 1, .min_p = 0.45}), (std::vector<TokenId>{0, 1, 2}));
}

TEST(Sampler, TypicalMayDropTheMostLikelyToken) {
  // Entropy 1.50; surprisals 0.92 for token 0, 1.90 for each of the four others: these are nearer.
  const std::vector<float> logits{std::log(0.4f), std::log(0.15f), std::log(0.15f), std::log(0.15f),
                                  std::log(0.15f)};
  EXPECT_EQ(kept(logits, {.temperature = 1, .typical_p = 0.3}), (std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(kept(logits, {.temperature = 1, .typical_p = 0.9}).size(), 5u);
}

// The filters as transformers states them, by a full sort.
class SortedReference {
 public:
  SortedReference(const std::vector<float>& logits, double temperature) {
    for (const float logit : logits) scores_.push_back(logit / temperature);
  }

  void keep_top_k(size_t k) {
    std::vector<double> sorted = scores_;
    std::sort(sorted.rbegin(), sorted.rend());
    keep([&, last = sorted[std::min(k, sorted.size()) - 1]](size_t i) {
      return scores_[i] >= last;
    });
  }
  void keep_top_p(double share) {
    const std::vector<double> p = probabilities();
    keep_mass(share, [&](size_t i) { return -p[i]; });
  }
  void keep_min_p(double share) {
    const std::vector<double> p = probabilities();
    const double largest = *std::max_element(p.begin(), p.end());
    keep([&](size_t i) { return p[i] >= share * largest; });
  }
  void keep_typical(double share) {
    const std::vector<double> p = probabilities();
    double entropy = 0;
    for (const double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
    keep_mass(share, [&](size_t i) { return std::abs(-std::log(p[i]) - entropy); });
  }
  std::vector<TokenId> ids() const {
    std::vector<TokenId> ids;
    for (size_t i = 0; i < scores_.size(); ++i) {
      if (scores_[i] > -kInfinity) ids.push_back(static_cast<TokenId>(i));
    }
    return ids;
  }

 private:
  std::vector<double> probabilities() const {
    const double largest = *std::max_element(scores_.begin(), scores_.end());
    std::vector<double> p;
    for (const double score : scores_) p.push_back(std::exp(score - largest));
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= total;
    return p;
  }
  template <typename Rank>
  void keep_mass(double share, Rank rank) {
    const std::vector<double> p = probabilities();
    std::vector<size_t> order(scores_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank(a) < rank(b); });
    size_t last = 0;
    for (double mass = p[order[0]]; mass < share && last + 1 < order.size();)
      mass += p[order[++last]];
    const double cut_off = rank(order[last]);
    keep([&](size_t i) { return rank(i) <= cut_off + 1e-13; });
  }
  template <typename Keep>
  void keep(Keep keep) {
    std::vector<double> result = scores_;
    for (size_t i = 0; i < scores_.size(); ++i) {
      if (!keep(i)) result[i] = -kInfinity;
    }
    scores_ = std::move(result);
  }
  std::vector<double> scores_;
};

TEST(Sampler, FiltersEqualAFullSort) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::vector<float> logits =
        random_logits(seed % 2 == 0 ? 3000 : 41, seed, seed % 3 == 0 ? 3.0 : 1.0);
    logits[3] = logits[7] = logits[11];
    logits[20] = -kInfinity;
    for (const uint32_t top_k : {0u, 1u, 7u, 2000u}) {
      for (const double top_p : {1.0, 0.95, 0.3}) {
        for (const double min_p : {0.0, 0.02}) {
          for (const double typical_p : {1.0, 0.8, 0.2}) {
            const SamplingOptions options{.temperature = 0.8,
                                          .top_k = top_k,
                                          .top_p = top_p,
                                          .min_p = min_p,
                                          .typical_p = typical_p};
            SortedReference reference(logits, 0.8);
            if (top_k != 0) reference.keep_top_k(top_k);
            if (top_p < 1) reference.keep_top_p(top_p);
            if (min_p > 0) reference.keep_min_p(min_p);
            if (typical_p < 1) reference.keep_typical(typical_p);
            ASSERT_EQ(kept(logits, options), reference.ids())
                << "seed " << seed << " top_k " << top_k << " top_p " << top_p << " min_p " << min_p
                << " typical_p " << typical_p;
          }
        }
      }
    }
  }
}

// --- Draws ---

// C108: filters before the temperature hid it.
TEST(Sampler, HugeTemperatureIsNearUniform) {
  const std::vector<float> logits{0, 10, -10, 5, 2, 8, -4, 1};
  std::vector<size_t> counts(logits.size());
  for (uint32_t position = 0; position < 10000; ++position) {
    ++counts[static_cast<size_t>(
        must_pick(logits, {.temperature = 1e6, .seed = 11}, {}, 0, position))];
  }
  EXPECT_LT(chi_square(counts, std::vector<double>(8, 0.125)),
            24.3);  // 7 degrees of freedom, 1 in 1000
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const std::vector<float> logits{1, 0, 2, -1, 0.5f, -kInfinity};
  const double temperature = 1.5;
  std::vector<double> probabilities;
  double total = 0;
  for (size_t i = 0; i < 5; ++i) total += std::exp(logits[i] / temperature);
  for (size_t i = 0; i < 5; ++i) probabilities.push_back(std::exp(logits[i] / temperature) / total);
  std::vector<size_t> counts(6);
  for (uint32_t draw = 0; draw < 20000; ++draw) {  // over choices as well as positions
    ++counts[static_cast<size_t>(
        must_pick(logits, {.temperature = temperature, .seed = 5}, {}, draw % 4, draw / 4))];
  }
  EXPECT_EQ(counts.back(), 0u);
  counts.pop_back();
  EXPECT_LT(chi_square(counts, probabilities), 18.5);  // 4 degrees of freedom, 1 in 1000
}

TEST(Sampler, FilteredDrawsFollowTheRenormalisedSoftmax) {
  const std::vector<float> logits{std::log(0.4f), std::log(0.1f), std::log(0.3f), std::log(0.2f)};
  std::vector<size_t> counts(4);
  for (uint32_t position = 0; position < 10000; ++position) {
    ++counts[static_cast<size_t>(
        must_pick(logits, {.temperature = 1, .top_k = 2, .seed = 3}, {}, 0, position))];
  }
  EXPECT_EQ(counts[1] + counts[3], 0u);
  EXPECT_LT(chi_square({counts[0], counts[2]}, {4.0 / 7, 3.0 / 7}),
            10.8);  // 1 degree of freedom, 1 in 1000
}

// The bound that spares logarithms must not change the draw.
TEST(Sampler, DrawIsTheLargestNoisyScore) {
  const std::vector<float> logits = random_logits(5000, 77, 2);
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::vector<uint64_t> bits(ids.size());
  for (uint32_t position = 0; position < 200; ++position) {
    draw_bits(draw_key(9, 1, position), ids, bits);
    TokenId expected = 0;
    double best = -kInfinity;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double score = (logits[i] - largest) / 0.9 + gumbel(open_uniform(bits[i]));
      if (score > best) {
        best = score;
        expected = static_cast<TokenId>(i);
      }
    }
    ASSERT_EQ(must_pick(logits, {.temperature = 0.9, .seed = 9}, {}, 1, position), expected)
        << position;
  }
}

// A filter that keeps the drawn token does not change the draw: noise belongs to the token.
TEST(Sampler, DrawDoesNotDependOnOtherTokens) {
  const std::vector<float> logits = random_logits(500, 4, 2);
  size_t compared = 0;
  for (uint32_t position = 0; position < 100; ++position) {
    const TokenId open = must_pick(logits, {.temperature = 1, .seed = 8}, {}, 0, position);
    const std::vector<TokenId> filtered = kept(logits, {.temperature = 1, .top_k = 40, .seed = 8});
    if (!std::binary_search(filtered.begin(), filtered.end(), open)) continue;
    ++compared;
    EXPECT_EQ(must_pick(logits, {.temperature = 1, .top_k = 40, .seed = 8}, {}, 0, position), open);
  }
  EXPECT_GT(compared, 20u);
}

// Also C111 for the sampler's part: the scratch carries nothing from one request to the next.
TEST(Sampler, RequestsInABatchDrawAsAlone) {
  SamplerScratch shared;
  const std::vector<TokenId> history{1, 2, 3, 2};
  for (uint32_t round = 0; round < 50; ++round) {
    for (uint32_t request = 0; request < 6; ++request) {
      const std::vector<float> logits =
          random_logits(100 + 700 * (request % 3), round * 6 + request, 2);
      SamplingOptions options{.temperature = 0.5 + request, .seed = request};
      if (request % 2 == 0) options.top_p = 0.8;
      if (request % 3 == 0) options.repetition_penalty = 1.3;
      if (request == 4) options.typical_p = 0.7;
      if (request == 5) options.top_k = 30;
      const auto together = pick(logits, options, {history, history}, request, round, shared);
      ASSERT_TRUE(together.ok());
      EXPECT_EQ(*together, must_pick(logits, options, {history, history}, request, round));
    }
  }
}

// C190: all choices were the same.
TEST(Sampler, ChoicesDifferAndAreReproducible) {
  const std::vector<float> logits = random_logits(1000, 6, 1);
  const auto answers = [&] {
    std::vector<std::vector<TokenId>> all(4);
    for (uint32_t choice = 0; choice < 4; ++choice) {
      for (uint32_t position = 10; position < 26; ++position) {
        all[choice].push_back(
            must_pick(logits, {.temperature = 1, .seed = 1}, {}, choice, position));
      }
    }
    return all;
  };
  const auto first = answers();
  EXPECT_EQ(answers(), first);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 4u);
}

// --- Errors ---

// C234: bad logits ended in an assertion.
TEST(Sampler, NonFiniteLogitsAreAnErrorOfTheRequest) {
  SamplerScratch scratch;
  const std::vector<std::vector<float>> rows{std::vector<float>(40, kNan),
                                             {1, 2, kNan, 3},
                                             {1, kInfinity, 2, 3},
                                             std::vector<float>(40, -kInfinity)};
  for (const auto& row : rows) {
    for (const SamplingOptions& options :
         {SamplingOptions{}, SamplingOptions{.temperature = 1, .top_p = 0.9},
          SamplingOptions{
              .temperature = 1, .top_k = 2, .typical_p = 0.5, .logit_bias = {{2, -INFINITY}}}}) {
      const auto token = pick(row, options, {}, 0, 31, scratch);
      ASSERT_FALSE(token.ok());
      EXPECT_EQ(token.error().code, Code::kNonFinite);
      EXPECT_NE(token.error().message.find("non-finite logits"), std::string::npos);
      EXPECT_NE(token.error().message.find("position 31"), std::string::npos);
    }
  }
  const auto named = pick(rows[1], {}, {}, 0, 31, scratch);
  EXPECT_NE(named.error().message.find("token 2 is NaN"), std::string::npos);
  EXPECT_EQ(named.error().place.item, "logits[2]");
}

// C235: with every candidate at -infinity the soft-max gave NaN.
TEST(Sampler, BanningEveryTokenIsAnError) {
  SamplerScratch scratch;
  for (const double temperature : {0.0, 1.0}) {
    const auto token =
        pick(std::vector<float>{1, -kInfinity, 2},
             {.temperature = temperature, .logit_bias = {{0, -INFINITY}, {2, -INFINITY}}}, {}, 0, 0,
             scratch);
    ASSERT_FALSE(token.ok());
    EXPECT_EQ(token.error().code, Code::kInvalidArgument);
    EXPECT_EQ(token.error().place.item, "logit_bias");
  }
  EXPECT_EQ(pick({}, {}, {}, 0, 0, scratch).error().code, Code::kInvalidArgument);
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {
  const double nan = std::nan("");
  const std::vector<std::pair<SamplingOptions, std::string>> cases{
      {{.temperature = -1}, "temperature"},
      {{.temperature = nan}, "temperature"},
      {{.temperature = INFINITY}, "temperature"},
      {{.top_p = 0}, "top_p"},
      {{.top_p = 1.01}, "top_p"},
      {{.min_p = -0.1}, "min_p"},
      {{.min_p = nan}, "min_p"},
      {{.typical_p = 0}, "typical_p"},
      {{.repetition_penalty = 0}, "repetition_penalty"},
      {{.repetition_penalty = INFINITY}, "repetition_penalty"},
      {{.presence_penalty = nan}, "presence_penalty"},
      {{.frequency_penalty = -INFINITY}, "frequency_penalty"},
      {{.logit_bias = {{0, 1}, {-1, 1}}}, "logit_bias[1]"},
      {{.logit_bias = {{8, 1}}}, "logit_bias[0]"},
      {{.logit_bias = {{1, INFINITY}}}, "logit_bias[0]"},
      {{.logit_bias = {{1, nan}}}, "logit_bias[0]"},
  };
  SamplerScratch scratch;
  for (const auto& [options, field] : cases) {
    const Status status = options.validate(8);
    ASSERT_FALSE(status.ok()) << field;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_EQ(status.error().place.item, field);
    EXPECT_FALSE(pick(std::vector<float>(8, 1.0f), options, {}, 0, 0, scratch).ok()) << field;
  }
  EXPECT_TRUE(SamplingOptions{}.validate().ok());
  EXPECT_TRUE((SamplingOptions{.logit_bias = {{200063, -INFINITY}}}).validate().ok());
}

TEST(Sampler, AllocatesNothingAfterWarmUp) {
  const std::vector<float> logits = random_logits(32064, 3, 2);
  const std::vector<TokenId> history(100, 7);
  const SamplingOptions filtered{.temperature = 1,
                                 .top_k = 2000,
                                 .top_p = 0.9,
                                 .min_p = 0.001,
                                 .typical_p = 0.9,
                                 .repetition_penalty = 1.1,
                                 .frequency_penalty = 0.1};
  const SamplingOptions open{.temperature = 2, .top_p = 0.999};
  SamplerScratch scratch;
  ASSERT_TRUE(pick(logits, filtered, {history, history}, 0, 0, scratch).ok());
  const size_t before = test::allocation_count();
  for (uint32_t position = 1; position < 20; ++position) {
    const auto first = pick(logits, filtered, {history, history}, 0, position, scratch);
    const auto second = pick(logits, open, {history, history}, 0, position, scratch);
    if (!first.ok() || !second.ok()) FAIL();
  }
  EXPECT_EQ(test::allocation_count(), before);
}

}  // namespace
}  // namespace phidias
