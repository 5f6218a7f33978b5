#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "double_network.h"
#include "gradient/collector.h"
#include "gradient/linear.h"
#include "random_model.h"

namespace phidias::test {
namespace {

constexpr Site kLayerSites[] = {Site::kLayerInput,
                                Site::kAttentionNormOutput,
                                Site::kQkvOutput,
                                Site::kAttentionQueries,
                                Site::kAttentionKeys,
                                Site::kAttentionValues,
                                Site::kAttentionScores,
                                Site::kAttentionProbabilities,
                                Site::kAttentionHeadOutputs,
                                Site::kAttentionPremix,
                                Site::kAttentionOutput,
                                Site::kLayerMid,
                                Site::kMlpNormOutput,
                                Site::kMlpInput,
                                Site::kGateUpOutput,
                                Site::kMlpActivation,
                                Site::kMlpNeurons,
                                Site::kMlpOutput,
                                Site::kLayerOutput};
constexpr Site kModelPlaces[] = {Site::kTokenEmbeddings, Site::kFinalNormOutput,
                                 Site::kLmHeadOutput, Site::kLogits};

std::vector<GradientPlace> every_place(const ModelSpec& spec) {
  std::vector<GradientPlace> places;
  for (const Site site : kModelPlaces) places.push_back({site, 0});
  for (size_t layer = 0; layer < spec.layers; ++layer) {
    for (const Site site : kLayerSites) {
      const bool of_one_block =
          site == Site::kGateUpOutput || site == Site::kMlpActivation || site == Site::kMlpNeurons;
      if (!spec.experts || !of_one_block) places.push_back({site, layer});
    }
    if (!spec.experts) continue;
    for (const Site site : {Site::kRouterLogits, Site::kRouterWeights})
      places.push_back({site, layer});
  }
  return places;
}

ObjectiveTerm term(ObjectiveTerm::Kind kind, double weight, uint32_t position, int32_t token) {
  ObjectiveTerm term;
  term.kind = kind;
  term.weight = weight;
  term.position = position;
  term.token = token;
  return term;
}

// A term of every kind: logits, log-probabilities, a divergence, and dot products with values of
// every layer and of the final norm.
Objective mixed_objective(const ModelSpec& spec, uint32_t last) {
  using Kind = ObjectiveTerm::Kind;
  std::vector<ObjectiveTerm> terms = {
      term(Kind::kLogit, 1.5, last, 3), term(Kind::kLogit, -1, last, 7),
      term(Kind::kLogProb, 0.5, last - 2, 11), term(Kind::kLogProb, 0.25, last - 2, 12)};
  ObjectiveTerm kl = term(Kind::kKl, 0.7, last - 1, 0);
  kl.vector.assign(spec.vocab, 0.0F);
  for (size_t i = 0; i < 10; ++i) kl.vector[5 * i] = 0.1F;
  terms.push_back(kl);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.3F);
  const auto dot = [&](Site site, size_t layer, uint32_t position, size_t offset, size_t count) {
    ObjectiveTerm probe = term(Kind::kDot, 0.8, position, 0);
    probe.site = site;
    probe.layer = layer;
    probe.offset = offset;
    for (size_t i = 0; i < count; ++i) probe.vector.push_back(normal(random));
    terms.push_back(probe);
  };
  dot(spec.experts ? Site::kMlpOutput : Site::kMlpNeurons, 1, last - 3, 4, 9);
  if (spec.experts) dot(Site::kRouterWeights, 2, last, 0, 2);
  dot(Site::kLayerOutput, 0, last, 0, spec.width);
  dot(Site::kAttentionQueries, 2, last, 0, spec.attention.query_width());
  dot(Site::kFinalNormOutput, 0, last - 3, 0, spec.width);
  return Objective(std::move(terms));
}

struct Gradients {
  StoredRun run;
  GradientCollector collector;
};

Gradients gradients(const RandomModel& model, const std::vector<int32_t>& tokens,
                    Objective objective, const std::vector<GradientPlace>& wanted,
                    size_t thread_count = 1, std::vector<GradientScale> scales = {},
                    const KernelTable& kernels = best_table()) {
  ThreadPool threads(thread_count);
  RunContext context(kernels, threads, Numerics::kExact);
  auto run = run_and_store(model.spec, model.weights, context, tokens,
                           rotary_factors_for(model.spec.rope, tokens.size()));
  EXPECT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_TRUE(objective.check(model.spec, tokens.size()).ok());
  Gradients result{std::move(*run),
                   GradientCollector(model.spec, tokens.size(), std::move(objective), wanted,
                                     std::move(scales))};
  const Status status = run_backward(model.spec, model.weights, kernels, threads, result.run,
                                     nullptr, result.collector);
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return result;
}

// The objective in double, with `step` added to one entry of a value.
double objective_of(const DoubleNetwork& network, const RandomModel& model,
                    const std::vector<int32_t>& tokens, const Objective& objective,
                    GradientPlace place, size_t entry, double step) {
  double total = 0;
  const auto visit = [&](Site site, size_t layer, std::vector<double>& values) {
    if (site == place.site && (layer == place.layer)) values[entry] += step;
    for (const ObjectiveTerm& t : objective.terms()) {
      if (t.kind != ObjectiveTerm::Kind::kDot || t.site != site || t.layer != layer) continue;
      const double* row = values.data() + t.position * site_width(model.spec, site) + t.offset;
      for (size_t i = 0; i < t.vector.size(); ++i) total += t.weight * row[i] * double{t.vector[i]};
    }
  };
  const std::vector<double> logits =
      network.logits(tokens, rotary_factors_for(model.spec.rope, tokens.size()), visit);
  for (const ObjectiveTerm& t : objective.terms()) {
    const double* row = logits.data() + t.position * model.spec.vocab;
    double sum = 0;
    for (size_t i = 0; i < model.spec.vocab; ++i) sum += std::exp(row[i]);
    if (t.kind == ObjectiveTerm::Kind::kLogit) total += t.weight * row[t.token];
    if (t.kind == ObjectiveTerm::Kind::kLogProb) total += t.weight * (row[t.token] - std::log(sum));
    for (size_t i = 0; t.kind == ObjectiveTerm::Kind::kKl && i < t.vector.size(); ++i) {
      const double reference = t.vector[i];
      if (reference > 0)
        total += t.weight * reference * (std::log(reference) - row[i] + std::log(sum));
    }
  }
  return total;
}

struct Setting {
  const char* name;
  uint32_t unit;
  Format format;
  size_t positions;
  size_t entries;  // of each value that are compared
  ModelSpec (*spec)(uint32_t unit) = small_spec;
};

class CentralDifferences : public testing::TestWithParam<Setting> {};

// T17: 1e-4 of the largest entry. In double a step of 1e-5 leaves 1e-9.
TEST_P(CentralDifferences, AreTheGradientsAtEveryValue) {
  const Setting& setting = GetParam();
  const RandomModel model = random_model(setting.spec(setting.unit), setting.format, 17);
  const auto tokens = random_tokens(model.spec, setting.positions, 5);
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  const Objective objective = mixed_objective(model.spec, last);
  const auto places = every_place(model.spec);
  const Gradients result = gradients(model, tokens, objective, places);
  const DoubleNetwork network(model);
  std::mt19937 random(1);
  constexpr double kStep = 1e-5;
  size_t compared = 0;
  for (const GradientPlace place : places) {
    const auto& values = result.collector[place].values;
    double largest = 0;
    size_t largest_entry = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::abs(double{values[i]}) > largest) {
        largest = std::abs(double{values[i]});
        largest_entry = i;
      }
    }
    ASSERT_GT(largest, 0) << static_cast<int>(place.site);
    for (size_t draw = 0; draw < setting.entries; ++draw) {
      const size_t entry = draw == 0 ? largest_entry : random() % values.size();
      const auto at = [&](double step) {
        return objective_of(network, model, tokens, objective, place, entry, step);
      };
      // A hidden score stays hidden: it has no gradient, and no step is small beside it.
      const double slope = (at(kStep) - at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(values[entry], slope, 1e-4 * largest)
          << "site " << static_cast<int>(place.site) << " layer " << place.layer << " entry "
          << entry;
      ++compared;
    }
  }
  EXPECT_EQ(compared, setting.entries * places.size());
}

INSTANTIATE_TEST_SUITE_P(
    Weights, CentralDifferences,
    testing::Values(Setting{"F32Short", 32, Format::kF32, 6, 4},
                    Setting{"F32Long", 32, Format::kF32, 9, 4},
                    Setting{"Relative", 32, Format::kF32, 13, 4, relative_spec},
                    Setting{"Experts", 32, Format::kF32, 9, 6, experts_spec},
                    Setting{"ExpertsQ8_0", 128, Format::kQ8_0, 7, 3, experts_spec},
                    Setting{"Q8_0", 128, Format::kQ8_0, 7, 2},
                    Setting{"Q4_K", 256, Format::kQ4_K, 6, 1}),
    [](const auto& setting) { return setting.param.name; });

TEST(Backward, ThreadsAndWhatElseIsWantedChangeNoBit) {
  const RandomModel model = random_model(small_spec(64), Format::kBF16, 2);
  const auto tokens = random_tokens(model.spec, 70, 8);
  const Objective objective = mixed_objective(model.spec, 69);
  const auto places = every_place(model.spec);
  const Gradients all = gradients(model, tokens, objective, places, 1);
  for (const size_t threads : {2U, 3U}) {
    const Gradients again = gradients(model, tokens, objective, places, threads);
    for (const GradientPlace place : places)
      EXPECT_EQ(again.collector[place].values, all.collector[place].values) << threads;
  }
  for (const GradientPlace place : places) {
    const Gradients alone = gradients(model, tokens, objective, {place}, 2);
    EXPECT_EQ(alone.collector[place].values, all.collector[place].values)
        << static_cast<int>(place.site);
  }
}

TEST(Backward, EveryKernelTableGivesTheSameBits) {
  const RandomModel model = random_model(small_spec(64), Format::kF16, 4);
  const auto tokens = random_tokens(model.spec, 70, 1);
  const Objective objective = mixed_objective(model.spec, 69);
  const auto places = every_place(model.spec);
  const Gradients best = gradients(model, tokens, objective, places);
  for (const KernelTable* table : available_tables()) {
    const Gradients other = gradients(model, tokens, objective, places, 1, {}, *table);
    for (const GradientPlace place : places) {
      EXPECT_EQ(other.collector[place].values, best.collector[place].values)
          << table->name << " site " << static_cast<int>(place.site);
    }
  }
}

TEST(Backward, LaterPositionsHaveNoGradient) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 6);
  const auto tokens = random_tokens(model.spec, 10, 1);
  const Gradients result = gradients(model, tokens, logit_difference(3, 4, 5),
                                     {{Site::kTokenEmbeddings, 0}, {Site::kLayerMid, 1}});
  for (const GradientPlace place :
       {GradientPlace{Site::kTokenEmbeddings, 0}, GradientPlace{Site::kLayerMid, 1}}) {
    const auto& gradient = result.collector[place];
    for (size_t i = 0; i < gradient.values.size(); ++i) {
      const bool later = i / gradient.width > 5;
      ASSERT_TRUE(!later || gradient.values[i] == 0) << i;
    }
  }
}

// Beyond a window of 5 and three layers, nothing of a position reaches the objective.
TEST(Backward, TheWindowBoundsHowFarBackAGradientReaches) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 6);
  const auto tokens = random_tokens(model.spec, 30, 1);
  const Gradients result =
      gradients(model, tokens, logit_difference(3, 4, 29), {{Site::kTokenEmbeddings, 0}});
  const auto& gradient = result.collector[{Site::kTokenEmbeddings, 0}];
  const auto zero_row = [&](size_t row) {
    const float* values = gradient.values.data() + row * gradient.width;
    return std::all_of(values, values + gradient.width, [](float v) { return v == 0; });
  };
  for (size_t row = 0; row < 29 - 3 * 4; ++row) EXPECT_TRUE(zero_row(row)) << row;
  for (size_t row = 29 - 3 * 4; row < 30; ++row) EXPECT_FALSE(zero_row(row)) << row;
}

// T18: of a value that enters the objective linearly the gradient is the weights themselves.
TEST(Backward, TheGradientOfALogitAtTheFinalNormIsTheHeadsRow) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 9);
  const auto tokens = random_tokens(model.spec, 8, 1);
  const Gradients result = gradients(model, tokens, logit_difference(11, 22, 7),
                                     {{Site::kFinalNormOutput, 0}, {Site::kLogits, 0}});
  std::vector<float> first(model.spec.width), second(model.spec.width);
  decode_row(model.weights.head, 11, first.data());
  decode_row(model.weights.head, 22, second.data());
  const auto& gradient = result.collector[{Site::kFinalNormOutput, 0}].values;
  for (size_t i = 0; i < model.spec.width; ++i)
    EXPECT_EQ(gradient[7 * model.spec.width + i], first[i] - second[i]);
  const auto& logits = result.collector[{Site::kLogits, 0}].values;
  EXPECT_EQ(logits[7 * model.spec.vocab + 11], 1.0F);
  EXPECT_EQ(logits[7 * model.spec.vocab + 22], -1.0F);
  EXPECT_EQ(std::count(logits.begin(), logits.end(), 0.0F),
            static_cast<ptrdiff_t>(logits.size() - 2));
}

TEST(Backward, WithAllContributionsCutTheStreamsGradientPassesUnchanged) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 9);
  const auto tokens = random_tokens(model.spec, 8, 1);
  std::vector<GradientScale> cuts;
  for (size_t layer = 0; layer < model.spec.layers; ++layer) {
    cuts.push_back({{Site::kAttentionOutput, layer}, 0.0F, {}});
    cuts.push_back({{Site::kMlpOutput, layer}, 0.0F, {}});
  }
  const Gradients result = gradients(
      model, tokens, logit_difference(11, 22, 7),
      {{Site::kTokenEmbeddings, 0}, {Site::kLayerOutput, model.spec.layers - 1}}, 1, cuts);
  EXPECT_EQ(result.collector[GradientPlace{Site::kTokenEmbeddings}].values,
            (result.collector[{Site::kLayerOutput, model.spec.layers - 1}].values));
}

TEST(Backward, ScalingAGradientScalesWhatLiesBeforeIt) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 9);
  const auto tokens = random_tokens(model.spec, 8, 1);
  const std::vector<GradientPlace> wanted = {{Site::kMlpNeurons, 2}, {Site::kGateUpOutput, 2}};
  const Gradients plain = gradients(model, tokens, logit_difference(1, 2, 7), wanted);
  const Gradients scaled = gradients(model, tokens, logit_difference(1, 2, 7), wanted, 1,
                                     {{{Site::kMlpNeurons, 2}, 2.0F, {7}}});
  EXPECT_EQ(scaled.collector[wanted[0]].values, plain.collector[wanted[0]].values);
  const auto& before = plain.collector[wanted[1]];
  for (size_t i = 0; i < before.values.size(); ++i) {
    const float factor = i / before.width == 7 ? 2.0F : 1.0F;
    ASSERT_EQ(scaled.collector[wanted[1]].values[i], factor * before.values[i]);
  }
}

TEST(Backward, AnOutputBeyondTheRunIsAnError) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 9);
  ThreadPool threads(1);
  RunContext context(best_table(), threads, Numerics::kExact);
  auto run = run_and_store(model.spec, model.weights, context, {1, 2}, RotaryFactors::kShort);
  ASSERT_TRUE(run.ok());
  GradientCollector collector(model.spec, 2, logit_difference(1, 2, 2), {});
  const Status status =
      run_backward(model.spec, model.weights, best_table(), threads, *run, nullptr, collector);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
}

TEST(Backward, WeightsOfExpertsAreRefused) {
  class Weights final : public GradientTaps {
   public:
    std::span<const uint32_t> outputs() const override { return {}; }
    void add_objective(uint32_t, std::span<const float>, std::span<float>) override {}
    SiteMask sites(size_t) const override { return 0; }
    void visit(Site, size_t, const SiteRows&) override {}
    bool wants_weights() const override { return true; }
  };
  const RandomModel model = random_model(experts_spec(32), Format::kF32, 2);
  ThreadPool threads(1);
  RunContext context(best_table(), threads, Numerics::kExact);
  const auto run =
      run_and_store(model.spec, model.weights, context, {1, 2, 3}, RotaryFactors::kShort);
  ASSERT_TRUE(run.ok());
  Weights taps;
  const Status status =
      run_backward(model.spec, model.weights, best_table(), threads, *run, nullptr, taps);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kUnsupported);
}

TEST(StoredRun, NoTokensAndForeignTokensAreErrors) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 9);
  ThreadPool threads(1);
  RunContext context(best_table(), threads, Numerics::kExact);
  for (const std::vector<int32_t>& tokens : {std::vector<int32_t>(), {1, -1}, {53}}) {
    const auto run =
        run_and_store(model.spec, model.weights, context, tokens, RotaryFactors::kShort);
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().code, Code::kInvalidArgument);
  }
}

// Every format, at sizes beyond the blocks that the product works in.
TEST(LinearTransposed, LiesNearTheExactProductInEveryFormat) {
  for (const FormatRow& format : format_rows()) {
    const size_t cols = 512;
    const size_t rows = 200;
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    Matrix weights = random_matrix(50, cols, format.format, random);
    weights.blocks.push_back(random_matrix(30, cols, Format::kF16, random).blocks.front());
    weights.rows += 30;
    std::vector<float> dy(rows * weights.rows), dx(rows * cols);
    for (float& value : dy) value = normal(random);
    ThreadPool threads(2);
    RunContext context(best_table(), threads, Numerics::kExact);
    linear_transposed(context, weights, dy.data(), weights.rows, rows, dx.data(), cols);
    std::vector<std::vector<float>> decoded(weights.rows, std::vector<float>(cols));
    for (size_t o = 0; o < weights.rows; ++o) decode_row(weights, o, decoded[o].data());
    for (const size_t r : {size_t{0}, size_t{191}, size_t{192}, size_t{199}}) {
      for (size_t c = 0; c < cols; c += 37) {
        double exact = 0;
        double magnitudes = 0;
        for (size_t o = 0; o < weights.rows; ++o) {
          const double product = double{decoded[o][c]} * double{dy[r * weights.rows + o]};
          exact += product;
          magnitudes += std::abs(product);
        }
        // Chains of 64 fused steps, then doubles and one rounding.
        ASSERT_NEAR(dx[r * cols + c], exact, 65 * 0x1p-24 * magnitudes) << format.name;
      }
    }
  }
}

}  // namespace
}  // namespace phidias::test
