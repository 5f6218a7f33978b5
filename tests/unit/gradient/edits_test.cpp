// Gradients of runs with edits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "double_network.h"
#include "gradient/collector.h"
#include "random_model.h"

namespace phidias::test {
namespace {

struct TestEdit {
  enum class Op : uint8_t { kSet, kAdd, kScale };
  GradientPlace place;
  Op op = Op::kScale;
  float operand = 0;
  size_t first_row = 0;
  size_t begin = 0;  // columns; of patterns, keys
  size_t end = 0;
  size_t head = 0;  // of patterns

  template <typename T>
  void apply(T& value) const {
    if (op == Op::kSet) value = static_cast<T>(operand);
    if (op == Op::kAdd) value += static_cast<T>(operand);
    if (op == Op::kScale) value *= static_cast<T>(operand);
  }
  void differentiate(float& gradient) const {
    if (op == Op::kSet) gradient = 0;
    if (op == Op::kScale) gradient *= operand;
  }
};

bool is_pattern(Site site) { return (kPatternSites & mask_of(site)) != 0; }

SiteMask sites_of(const std::vector<TestEdit>& edits, size_t layer) {
  SiteMask mask = 0;
  for (const TestEdit& edit : edits) {
    if (edit.place.layer == layer || (kModelSites & mask_of(edit.place.site)) != 0)
      mask |= mask_of(edit.place.site);
  }
  return mask;
}

// Calls f(edit, entry) for the entries that are edited in rows at a site.
template <class F>
void each_entry(const std::vector<TestEdit>& edits, Site site, size_t layer, const SiteRows& rows,
                F f) {
  for (const TestEdit& edit : edits) {
    if (edit.place != GradientPlace{site, layer}) continue;
    for (size_t r = 0; r < rows.rows; ++r) {
      if (rows.position + r < edit.first_row) continue;
      for (size_t c = edit.begin; c < edit.end; ++c) f(edit, rows.data[r * rows.stride + c]);
    }
  }
}

class ForwardEdits final : public RunTaps {
 public:
  explicit ForwardEdits(const std::vector<TestEdit>& edits) : edits_(&edits) {}

  SiteMask sites(size_t layer) const override { return sites_of(*edits_, layer); }
  AttentionTap attention(size_t) const override {
    AttentionTap tap;
    tap.edits = true;
    return tap;
  }
  void visit(Site site, size_t layer, const SiteRows& rows) override {
    each_entry(*edits_, site, layer, rows,
               [](const TestEdit& edit, float& value) { edit.apply(value); });
  }
  void visit_pattern(Site site, size_t layer, const SitePattern& pattern) override {
    for (const TestEdit& edit : *edits_) {
      if (edit.place != GradientPlace{site, layer}) continue;
      for (size_t r = 0; r < pattern.rows; ++r) {
        for (size_t key = edit.begin; key < edit.end; ++key) {
          const size_t i = (r * pattern.heads + edit.head) * pattern.keys + key;
          const bool hidden = pattern.scores[i] == std::numeric_limits<float>::lowest();
          if (!hidden && pattern.position + r >= edit.first_row) edit.apply(pattern.data[i]);
        }
      }
    }
  }

 private:
  const std::vector<TestEdit>* edits_;
};

class BackwardEdits final : public EditDerivative {
 public:
  explicit BackwardEdits(const std::vector<TestEdit>& edits) : edits_(&edits) {}

  SiteMask sites(size_t layer) const override { return sites_of(*edits_, layer); }
  void visit(Site site, size_t layer, const SiteRows& gradient) override {
    each_entry(*edits_, site, layer, gradient,
               [](const TestEdit& edit, float& entry) { edit.differentiate(entry); });
  }
  void visit_pattern(Site site, size_t layer, size_t head, const SiteRows& gradient) override {
    each_entry(*edits_, site, layer, gradient, [&](const TestEdit& edit, float& entry) {
      if (edit.head == head) edit.differentiate(entry);
    });
  }

 private:
  const std::vector<TestEdit>* edits_;
};

// Logit 3 minus logit 7 at the last position, in double.
double objective_of(const DoubleNetwork& network, const RandomModel& model,
                    const std::vector<int32_t>& tokens, const std::vector<TestEdit>& edits,
                    GradientPlace place, size_t entry, double step) {
  const size_t positions = tokens.size();
  const auto sees = [&](size_t query, size_t key) {
    return key <= query && query - key < model.spec.mask.window;
  };
  const auto visit = [&](Site site, size_t layer, std::vector<double>& values) {
    for (const TestEdit& edit : edits) {
      if (edit.place != GradientPlace{site, layer}) continue;
      const size_t width = is_pattern(site) ? positions : site_width(model.spec, site);
      for (size_t r = edit.first_row; r < positions; ++r) {
        for (size_t c = edit.begin; c < edit.end; ++c) {
          if (!is_pattern(site)) {
            edit.apply(values[r * width + c]);
          } else if (sees(r, c)) {
            edit.apply(values[(edit.head * positions + r) * width + c]);
          }
        }
      }
    }
    if (place == GradientPlace{site, layer}) values[entry] += step;
  };
  const auto logits = network.logits(tokens, rotary_factors_for(model.spec.rope, positions), visit);
  const double* row = logits.data() + (positions - 1) * model.spec.vocab;
  return row[3] - row[7];
}

void expect_central_differences(const std::vector<TestEdit>& edits) {
  const RandomModel model = random_model(small_spec(32), Format::kF32, 23);
  const auto tokens = random_tokens(model.spec, 9, 4);
  const size_t positions = tokens.size();
  ForwardEdits forward(edits);
  BackwardEdits backward(edits);
  ThreadPool threads(2);
  RunContext context(best_table(), threads, Numerics::kExact);
  auto run = run_and_store(model.spec, model.weights, context, tokens,
                           rotary_factors_for(model.spec.rope, positions), &forward);
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  std::vector<GradientPlace> wanted = {{Site::kTokenEmbeddings, 0}, {Site::kFinalNormOutput, 0}};
  for (size_t layer = 0; layer < model.spec.layers; ++layer) {
    for (const Site site : {Site::kLayerInput, Site::kQkvOutput, Site::kAttentionQueries,
                            Site::kAttentionKeys, Site::kAttentionValues, Site::kAttentionScores,
                            Site::kAttentionProbabilities, Site::kAttentionPremix, Site::kLayerMid,
                            Site::kGateUpOutput, Site::kMlpNeurons, Site::kLayerOutput}) {
      wanted.push_back({site, layer});
    }
  }
  GradientCollector collector(model.spec, positions,
                              logit_difference(3, 7, static_cast<uint32_t>(positions - 1)), wanted,
                              {}, &backward);
  const Status status =
      run_backward(model.spec, model.weights, best_table(), threads, *run, &forward, collector);
  ASSERT_TRUE(status.ok()) << status.error().to_string();
  const DoubleNetwork network(model);
  std::mt19937 random(2);
  constexpr double kStep = 1e-5;
  for (const GradientPlace place : wanted) {
    const auto& values = collector[place].values;
    double largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(double{value}));
    for (size_t draw = 0; draw < 6; ++draw) {
      const size_t entry = random() % values.size();
      const auto at = [&](double step) {
        return objective_of(network, model, tokens, edits, place, entry, step);
      };
      const double slope = (at(kStep) - at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(values[entry], slope, 1e-4 * largest)
          << "site " << static_cast<int>(place.site) << " layer " << place.layer << " entry "
          << entry;
    }
  }
}

using Op = TestEdit::Op;

TEST(EditedGradient, PassesEditsOfRows) {
  expect_central_differences({{{Site::kLayerMid, 0}, Op::kAdd, 0.7F, 3, 0, 32},
                              {{Site::kLayerInput, 1}, Op::kScale, 1.5F, 0, 4, 20},
                              {{Site::kAttentionQueries, 1}, Op::kScale, -1.25F, 0, 8, 16},
                              {{Site::kAttentionKeys, 2}, Op::kScale, 0.5F, 4, 0, 8},
                              {{Site::kQkvOutput, 0}, Op::kSet, 0.2F, 5, 2, 9},
                              {{Site::kMlpNeurons, 2}, Op::kSet, 0.5F, 0, 3, 4},
                              {{Site::kMlpActivation, 1}, Op::kScale, 2.0F, 2, 0, 64},
                              {{Site::kLayerOutput, 1}, Op::kSet, 0.1F, 8, 0, 3},
                              {{Site::kTokenEmbeddings, 0}, Op::kScale, 3.0F, 0, 0, 32},
                              {{Site::kFinalNormOutput, 0}, Op::kScale, 2.0F, 0, 1, 5},
                              {{Site::kLogits, 0}, Op::kScale, 0.5F, 0, 3, 4}});
}

TEST(EditedGradient, PassesEditsOfScoresAndProbabilities) {
  expect_central_differences({{{Site::kAttentionScores, 0}, Op::kAdd, 0.5F, 2, 0, 4, 1},
                              {{Site::kAttentionScores, 1}, Op::kScale, 2.0F, 0, 2, 9, 3},
                              {{Site::kAttentionScores, 2}, Op::kSet, 0.25F, 0, 5, 8, 0},
                              {{Site::kAttentionProbabilities, 1}, Op::kScale, 0.5F, 0, 0, 9, 2},
                              {{Site::kAttentionProbabilities, 2}, Op::kSet, 0.2F, 3, 4, 7, 0}});
}

}  // namespace
}  // namespace phidias::test
