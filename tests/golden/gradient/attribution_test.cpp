#include "phidias/attribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "golden/gradient/train_case.h"

namespace phidias {
namespace {

class AttributionOf : public test::TrainCase {
 protected:
  void SetUp() override {
    TrainCase::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    clean_ = corrupt_ = ids_;
    corrupt_[2] = 40;
    corrupt_[4] = 41;
  }

  Attribution attributed(const Metric& metric, const std::vector<ValueRef>& values,
                         const AttributionOptions& options = {}) {
    auto result = attribute(*engine_, clean_, corrupt_, metric, values, options);
    EXPECT_TRUE(result.ok()) << result.error().to_string();
    return std::move(*result);
  }
  static double sum(const Traced::Entry& entry) {
    return std::accumulate(entry.tensor.floats.begin(), entry.tensor.floats.end(), 0.0);
  }
  // The metric of the corrupt text with an edit.
  double metric_with(const Metric& metric, const Edit& edit) {
    Trace trace(*engine_, corrupt_);
    trace.edit(edit);
    trace.grad(kValues.final_norm_output);
    trace.metric(metric);
    const auto traced = trace.run();
    EXPECT_TRUE(traced.ok()) << traced.error().to_string();
    return traced->metric;
  }

  std::vector<TokenId> clean_, corrupt_;
};

const AttributionOptions kStar{.method = AttributionMethod::kStar};

TEST_P(AttributionOf, EqualTextsIsExactlyZero) {
  corrupt_ = clean_;
  const auto result = attributed(logit_difference(11, 22),
                                 {kValues.layers.all().layer_output, kValues.token_embeddings});
  EXPECT_EQ(result.clean, result.corrupt);
  EXPECT_EQ(result.entries.size(), engine_->model().info().num_layers + 1);
  for (const Traced::Entry& entry : result.entries) {
    for (const float x : entry.tensor.floats) ASSERT_EQ(x, 0.0F) << entry.name;
  }
}

TEST_P(AttributionOf, AValueThatEntersLinearlyIsTheWholeChange) {
  const auto result =
      attributed(logit_difference(11, 22), {kValues.final_norm_output, kValues.lm_head_output});
  const double change = result.clean - result.corrupt;
  ASSERT_GT(std::abs(change), 1e-3);
  for (const Traced::Entry& entry : result.entries) {
    double magnitude = 0;
    for (const float x : entry.tensor.floats) magnitude += std::abs(double{x});
    EXPECT_NEAR(sum(entry), change, 1e-6 * magnitude + 1e-6) << entry.name;
  }
}

TEST_P(AttributionOf, IntegratedGradientsAddUpToTheChange) {
  const Metric metric = log_prob(7);
  AttributionOptions options{.method = AttributionMethod::kIntegrated};
  options.steps = 200;
  const auto result = attributed(metric, {kValues.layers[1].layer_output}, options);
  // Patching all of a layer's output gives the clean run.
  EXPECT_NEAR(sum(result.entries[0]), result.clean - result.corrupt,
              0.01 * std::abs(result.clean - result.corrupt) + 1e-3);
}

// Where the metric is linear in the last layer's probabilities, the estimate for a query is exact,
// and for a key too; attribution patching's is not.
TEST_P(AttributionOf, AtpStarGoesThroughTheSoftmax) {
  const auto last_layer = static_cast<int32_t>(engine_->model().info().num_layers - 1);
  const auto& attention = kValues.layers[last_layer].self_attn;
  const size_t width = engine_->model().info().hidden_size;
  std::vector<float> direction;
  for (size_t i = 0; i < width; ++i) direction.push_back(std::cos(static_cast<float>(i)));
  const Metric metric = dot(attention.attention_output.at(kLast), direction);
  const auto result =
      attributed(metric, {attention.attention_queries, attention.attention_keys}, kStar);

  Trace clean(*engine_, clean_);
  const auto queries = clean.read(attention.attention_queries);
  const auto keys = clean.read(attention.attention_keys);
  const auto traced = clean.run();
  ASSERT_TRUE(traced.ok());
  const size_t last = clean_.size() - 1;
  const auto vector_of = [](const Tensor& tensor, size_t head, size_t position) {
    const size_t dim = tensor.shape[3];
    const auto begin =
        tensor.floats.begin() + static_cast<ptrdiff_t>((head * tensor.shape[2] + position) * dim);
    return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(dim));
  };
  EXPECT_EQ(result.entries[0].tensor.shape,
            (std::vector<uint64_t>{1, (*traced)[queries].shape[1], clean_.size(), 1}));
  for (const size_t position : {last, last - 1}) {
    const double query_change =
        metric_with(metric, attention.attention_queries.head(1).at(static_cast<int64_t>(last)) =
                                vector_of((*traced)[queries], 1, last)) -
        result.corrupt;
    EXPECT_NEAR(result.entries[0].tensor.floats[clean_.size() + last], query_change, 2e-4);
    const double key_change =
        metric_with(metric, attention.attention_keys.head(0).at(static_cast<int64_t>(position)) =
                                vector_of((*traced)[keys], 0, position)) -
        result.corrupt;
    EXPECT_NEAR(result.entries[1].tensor.floats[position], key_change, 2e-4);
  }
}

TEST_P(AttributionOf, DroppingGradientsGivesTheMeanOfWhatIsLeft) {
  AttributionOptions options;
  options.drop = true;
  const ValueRef value = kValues.layers[0].layer_output;
  const auto result = attributed(logit_difference(11, 22), {value}, options);
  const size_t layers = engine_->model().info().num_layers;
  const auto plain = attributed(logit_difference(11, 22), {value});
  std::vector<double> mean(plain.entries[0].tensor.floats.size());
  for (size_t layer = 0; layer < layers; ++layer) {
    Trace trace(*engine_, corrupt_);
    const auto gradient = trace.grad(kValues.layers[0].layer_output);
    const auto& cut = kValues.layers[static_cast<int32_t>(layer)];
    trace.scale_gradient(cut.self_attn.attention_output, 0);
    trace.scale_gradient(cut.mlp.mlp_output, 0);
    trace.metric(logit_difference(11, 22));
    const auto traced = trace.run();
    ASSERT_TRUE(traced.ok());
    // Nothing of the first layer's own lies behind its output.
    Trace whole(*engine_, corrupt_);
    const auto all = whole.grad(kValues.layers[0].layer_output);
    whole.metric(logit_difference(11, 22));
    const auto uncut = whole.run();
    EXPECT_EQ((*traced)[gradient].floats == (*uncut)[all].floats, layer == 0);
    for (size_t i = 0; i < mean.size(); ++i) {
      const double step =
          plain.entries[0].tensor.floats[i] == 0
              ? 0
              : double{plain.entries[0].tensor.floats[i]} / double{(*uncut)[all].floats[i]};
      mean[i] +=
          std::abs(step * double{(*traced)[gradient].floats[i]}) / static_cast<double>(layers - 1);
    }
  }
  for (size_t i = 0; i < mean.size(); ++i)
    ASSERT_NEAR(result.entries[0].tensor.floats[i], mean[i], 1e-5 * (1 + mean[i]));
}

TEST_P(AttributionOf, WhatCannotBeAttributedIsAnError) {
  const Metric metric = logit(5);
  const ValueRef value = kValues.layers[0].layer_output;
  const auto fails = [&](std::vector<ValueRef> values, AttributionOptions options) {
    return !attribute(*engine_, clean_, corrupt_, metric, values, options).ok();
  };
  EXPECT_FALSE(fails({value}, {}));
  EXPECT_TRUE(fails({}, {}));
  EXPECT_TRUE(fails({ValueRef{ValueId::kInputIds, {}, {}}}, {}));
  AttributionOptions none;
  none.steps = 0;
  EXPECT_TRUE(fails({value}, none));
  EXPECT_TRUE(fails({kValues.layers[0].self_attn.attention_queries.head(0)}, kStar));
  corrupt_.pop_back();
  EXPECT_TRUE(fails({value}, {}));
}

INSTANTIATE_TEST_SUITE_P(Variants, AttributionOf,
                         testing::Values("mini-4k", "medium-4k", "mini-128k", "phi-4-mini"),
                         test::folder_name);

}  // namespace
}  // namespace phidias
