// Gradients as a user of the library asks for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden/gradient/train_case.h"
#include "phidias/trace.h"

namespace phidias {
namespace {

class TraceGradient : public test::TrainCase {
 protected:
  Trace trace() { return Trace(*engine_, ids_); }
  void ask(Trace& trace, std::string_view path) {
    auto reads = parse_gradient(path, engine_->model());
    ASSERT_TRUE(reads.ok()) << reads.error().to_string();
    for (Read& read : *reads) trace.read(std::move(read));
  }
};

// "value_grad.layers.0.attention_queries" of the file is
// "grad.layers.0.self_attn.attention_queries".
std::string traced_name(const std::string& name) {
  const std::string path = name.substr(std::string("value_grad.").size());
  auto value = parse_value(path);
  EXPECT_TRUE(value.ok()) << path;
  return "grad." + value_name(value->id, static_cast<size_t>(std::max(value->layers.begin, 0)));
}

TEST_P(TraceGradient, AllOfThemAreTheReferencesInTheValuesLayouts) {
  const auto expected = test::read_tensors(folder_ / "train.safetensors");
  Trace run = trace();
  ask(run, "all");
  auto metric = metric_from_json(R"({"logit_diff": [11, 22], "at": "last"})", engine_->model());
  ASSERT_TRUE(metric.ok()) << metric.error().to_string();
  run.metric(*metric);
  const auto traced = run.run();
  ASSERT_TRUE(traced.ok()) << traced.error().to_string();
  size_t compared = 0;
  for (const auto& [name, values] : expected.floats) {
    if (name.rfind("value_grad.", 0) != 0) continue;
    const Tensor* actual = traced->find(traced_name(name));
    ASSERT_NE(actual, nullptr) << name;
    EXPECT_EQ(actual->shape, expected.shapes.at(name)) << name;
    double largest = 0;
    double distance = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(double{values[i]}));
      distance = std::max(distance, std::abs(double{actual->floats[i]} - double{values[i]}));
    }
    EXPECT_LT(distance, 2e-5 * largest) << name;
    ++compared;
  }
  EXPECT_GT(compared, 20U);
}

TEST_P(TraceGradient, ReadsBesideGradientsAndPlansAreWhatTheyAreAlone) {
  Trace both = trace();
  const auto& layer = kValues.layers[1];
  const auto value = both.read(layer.layer_output);
  const auto gradient = both.grad(layer.layer_output.at(kLast));
  const auto heads = both.grad(layer.self_attn.attention_head_outputs.head(1));
  both.metric(log_prob(5));
  const auto plan = both.plan();
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  ASSERT_EQ(plan->entries.size(), 3U);
  EXPECT_EQ(plan->entries[1].name, "grad.layers.1.layer_output");
  const auto traced = both.run();
  ASSERT_TRUE(traced.ok()) << traced.error().to_string();

  Trace values = trace();
  const auto alone = values.read(layer.layer_output);
  const auto read = values.run();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*traced)[value].floats, (*read)[alone].floats);

  Trace whole = trace();
  const auto all = whole.grad(layer.layer_output);
  const auto all_heads = whole.grad(layer.self_attn.attention_head_outputs);
  whole.metric(log_prob(5));
  const auto full = whole.run();
  ASSERT_TRUE(full.ok());
  const Tensor& last = (*traced)[gradient];
  EXPECT_EQ(last.shape, plan->entries[1].shape);
  EXPECT_TRUE(std::equal(last.floats.begin(), last.floats.end(),
                         (*full)[all].floats.end() - static_cast<ptrdiff_t>(last.floats.size())));
  const Tensor& head = (*traced)[heads];
  const Tensor& every = (*full)[all_heads];
  const size_t dim = head.shape[3];
  for (size_t position = 0; position < ids_.size(); ++position) {
    for (size_t i = 0; i < dim; ++i) {
      ASSERT_EQ(head.floats[position * dim + i],
                every.floats[(position * every.shape[2] + 1) * dim + i]);
    }
  }
}

// T18 and the metric's own value: along a value that enters linearly, the metric moves by the dot
// product of gradient and step.
TEST_P(TraceGradient, AMetricMovesByTheGradientOfAValueThatEntersLinearly) {
  const auto metric_after = [&](float step, Tensor* gradient) {
    Trace run = trace();
    if (step != 0) run.edit(kValues.final_norm_output.at(kLast) += step);
    const auto grad = run.grad(kValues.final_norm_output.at(kLast));
    run.metric(logit_difference(11, 22));
    auto traced = run.run();
    EXPECT_TRUE(traced.ok()) << traced.error().to_string();
    if (gradient != nullptr) *gradient = (*traced)[grad];
    return traced->metric;
  };
  Tensor gradient;
  const double before = metric_after(0, &gradient);
  const double after = metric_after(0.5F, nullptr);
  double expected = 0;
  double magnitude = 0;
  for (const float entry : gradient.floats) {
    expected += 0.5 * double{entry};
    magnitude += std::abs(double{entry});
  }
  EXPECT_NEAR(after - before, expected, 1e-6 * (magnitude + std::abs(before)));
}

// A steering vector changes the metric, to first order, by its dot product with the gradient: taken
// from both sides the second order cancels. And gradients pass edits: set, scale, project.
TEST_P(TraceGradient, PassesTheEditsOfTheRun) {
  const uint64_t width = engine_->model().info().hidden_size;
  std::vector<float> direction;
  for (size_t i = 0; i < width; ++i) direction.push_back(i % 3 == 0 ? 1.0F : -0.5F);
  const Edits edits = {kValues.layers[0].layer_output.at(2) *= 1.5F,
                       kValues.layers[1].self_attn.attention_head_outputs.head(0) = 0.0F,
                       kValues.layers[1].self_attn.attention_scores.head(1).key(0) += 0.5F,
                       project_out(kValues.layers[1].layer_mid, Tensor::of({1, width}, direction))};
  const auto metric_after = [&](float step, Tensor* gradient) {
    Trace run = trace();
    run.edit(edits);
    if (step != 0) run.edit(kValues.token_embeddings += step);
    const auto grad = run.grad(kValues.token_embeddings);
    run.metric(logit_difference(11, 22) + 0.5 * log_prob(7, 3));
    auto traced = run.run();
    EXPECT_TRUE(traced.ok()) << traced.error().to_string();
    if (gradient != nullptr) *gradient = (*traced)[grad];
    return traced->metric;
  };
  constexpr float kStep = 5e-4F;
  Tensor gradient;
  metric_after(0, &gradient);
  const double slope = (metric_after(kStep, nullptr) - metric_after(-kStep, nullptr)) / (2 * kStep);
  double expected = 0;
  double magnitude = 0;
  for (const float entry : gradient.floats) {
    expected += double{entry};
    magnitude += std::abs(double{entry});
  }
  // Logits are floats: 1e-6 of some units, over twice the step; and a third order.
  EXPECT_NEAR(slope, expected, 2e-3 * magnitude + 2e-3);
}

TEST_P(TraceGradient, WhatCannotBeDifferentiatedIsAnErrorThatSaysWhy) {
  const auto code_of = [&](auto prepare) {
    Trace run = trace();
    run.metric(logit(5));
    prepare(run);
    const auto traced = run.run();
    return traced.ok() ? std::string("ok") : std::string(code_name(traced.error().code));
  };
  const auto& value = kValues.layers[0].layer_output;
  EXPECT_EQ(code_of([&](Trace& run) { run.grad(value); }), "ok");
  EXPECT_EQ(code_of([&](Trace& run) { run.grad(value), run.metric(Metric()); }),
            "invalid_argument");
  EXPECT_EQ(code_of([&](Trace& run) { run.grad(value), run.metric(logit(1 << 20)); }),
            "invalid_argument");
  EXPECT_EQ(code_of([&](Trace& run) { run.grad(value), run.metric(logit(5, 99)); }),
            "invalid_argument");
  EXPECT_EQ(code_of([&](Trace& run) { run.grad(kValues.next_token_probs); }), "invalid_argument");
  EXPECT_EQ(code_of([&](Trace& run) { run.grad(kValues.input_ids); }), "invalid_argument");
  EXPECT_EQ(code_of([&](Trace& run) { run.grad(value), run.edit(value.clamp(0, 1)); }), "ok");
  EXPECT_EQ(code_of([&](Trace& run) {
              run.grad(value);
              run.edit(on_live(value, [](const View&, const Where&) {}));
            }),
            "unsupported");
  TraceOptions options;
  options.generate = 3;
  Trace generating(*engine_, ids_, options);
  generating.grad(value);
  generating.metric(logit(5));
  EXPECT_FALSE(generating.run().ok());
  options = {};
  options.max_bytes = 100;
  Trace large(*engine_, ids_, options);
  large.grad(value);
  large.metric(logit(5));
  const auto refused = large.run();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kCapacityExceeded);
}

TEST_P(TraceGradient, MetricsAreReadFromJsonAndWhatIsWrongIsNamed) {
  const Model& model = engine_->model();
  const auto place = [&](std::string_view json) {
    const auto metric = metric_from_json(json, model);
    return metric.ok() ? std::string("ok") : metric.error().place.item;
  };
  EXPECT_EQ(*metric_from_json(R"({"logit_diff": [1, 2]})", model), logit_difference(1, 2));
  EXPECT_EQ(
      *metric_from_json(R"([{"log_prob": 4, "at": [1, 2], "weight": 0.5}, {"logit": 3}])", model),
      0.5 * log_prob(4, {1, 2}) + logit(3));
  EXPECT_EQ(*metric_from_json(
                R"({"dot": {"value": "layers[0].layer_mid", "vector": [1, 2]}, "at": 3})", model),
            dot(kValues.layers[0].layer_mid.at(3), {1, 2}));
  EXPECT_EQ(place(R"({"logit_diff": [1]})"), "/logit_diff");
  EXPECT_EQ(place(R"([{"logit": 1}, {"logit": -1}])"), "/1/logit");
  EXPECT_EQ(place(R"({"loss": 1})"), "/loss");
  EXPECT_EQ(place(R"({"logit": 1, "kl": [1]})"), "/kl");
  EXPECT_EQ(place(R"({"at": "last"})"), "");
  EXPECT_EQ(place(R"({"logit": 1, "at": "never"})"), "/at");
  EXPECT_EQ(place(R"({"dot": {"value": "nothing", "vector": [1]}})"), "/dot/value");
  EXPECT_EQ(place(R"({"kl": [1, "a"]})"), "/kl");
  EXPECT_EQ(place(R"({"logit": " Paris"})"), "/logit");
}

INSTANTIATE_TEST_SUITE_P(Variants, TraceGradient,
                         testing::Values("mini-4k", "medium-4k", "mini-128k", "medium-128k-su",
                                         "phi-4-mini", "phi-4"),
                         test::folder_name);

}  // namespace
}  // namespace phidias
