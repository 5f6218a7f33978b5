// The snippets of nnterp's phi3 page in C++, and those that the headers of this library promise.
#include <cmath>

#include "phidias/lens.h"
#include "phidias/live.h"
#include "trace_case.h"

namespace phidias {
namespace {

class Page : public test::TraceCase {
 protected:
  void SetUp() override {
    TraceCase::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) engine_ = engine();
  }
  std::unique_ptr<Engine> engine_;
};

// T3, the first snippet: every block's output is its input and what its two branches add, in order.
TEST_P(Page, TheContributionsOfABlockAddUpToItsOutput) {
  Trace trace(*engine_, ids());
  const auto every = model_->layers.all();
  const auto in = trace.read(every.layer_input);
  const auto attention = trace.read(every.self_attn.attention_output);
  const auto mlp = trace.read(every.mlp.mlp_output);
  const auto out = trace.read(every.layer_output);
  const Traced traced = run(trace);
  for (size_t layer = 0; layer < model_->info().num_layers; ++layer) {
    std::vector<float> sum = traced.of(in.read, layer).floats;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += traced.of(attention.read, layer).floats[i];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += traced.of(mlp.read, layer).floats[i];
    EXPECT_EQ(sum, traced.of(out.read, layer).floats);
  }
}

// The second: the values are the last slice of the fused projection, head by head.
TEST_P(Page, TheValuesAreTheLastSliceOfTheFusedProjection) {
  Trace trace(*engine_, ids());
  const auto fused = trace.read(model_->layers[1].self_attn.qkv_output);
  const auto values = trace.read(model_->layers[1].self_attn.attention_values);
  const Traced traced = run(trace);
  const ModelInfo& info = model_->info();
  const size_t dim = info.head_dim;
  const size_t kv_heads = info.num_kv_heads;
  const size_t width = traced[fused].shape[2];
  const size_t first = (info.num_heads + kv_heads) * dim;
  ASSERT_EQ(width, first + kv_heads * dim);
  std::vector<float> expected;
  for (size_t head = 0; head < kv_heads; ++head) {
    for (size_t s = 0; s < ids().size(); ++s) {
      const float* row = traced[fused].floats.data() + s * width + first + head * dim;
      expected.insert(expected.end(), row, row + dim);
    }
  }
  EXPECT_EQ(traced[values].shape, (std::vector<uint64_t>{1, kv_heads, ids().size(), dim}));
  EXPECT_EQ(traced[values].floats, expected);
}

// The third: neurons are the second half of the fused projection times the activated first half.
TEST_P(Page, TheNeuronsAreUpTimesTheActivatedGate) {
  Trace trace(*engine_, ids());
  const auto fused = trace.read(model_->layers[0].mlp.gate_up_output);
  const auto activation = trace.read(model_->layers[0].mlp.mlp_activation);
  const auto neurons = trace.read(model_->layers[0].mlp.mlp_neurons);
  const Traced traced = run(trace);
  const size_t width = model_->info().intermediate_size;
  for (size_t i = 0; i < traced[neurons].floats.size(); ++i) {
    const float gate = traced[fused].floats[i / width * 2 * width + i % width];
    const float up = traced[fused].floats[i / width * 2 * width + width + i % width];
    EXPECT_EQ(traced[neurons].floats[i], up * traced[activation].floats[i]);
    EXPECT_NEAR(traced[activation].floats[i], gate / (1 + std::exp(-gate)),
                1e-6F * (1 + std::abs(gate)));
  }
}

TEST_P(Page, AValueIsAHandleAndOneRunGivesValuesSlicesAndGradients) {
  const auto& attention = model_->layers[1].self_attn;
  Trace t(*engine_, ids());
  const auto pattern = t.read(attention.attention_probabilities.head(1).query(kLast));
  const auto stream = t.read(model_->layers[0].layer_output);
  const auto grad = t.grad(attention.attention_head_outputs);
  t.metric(logit_difference(11, 22));
  const Traced r = run(t);
  const uint64_t n = ids().size();
  EXPECT_EQ(r[pattern].shape, (std::vector<uint64_t>{1, 1, 1, n}));
  EXPECT_EQ(r[stream].shape, (std::vector<uint64_t>{1, n, model_->info().hidden_size}));
  EXPECT_EQ(r[grad].shape,
            (std::vector<uint64_t>{1, n, model_->info().num_heads, model_->info().head_dim}));
  const std::string tree = describe(*model_);
  for (const Support& value : support(*model_)) {
    if (value.missing) continue;
    EXPECT_NE(tree.find(value.value.name), std::string::npos) << value.value.name;
  }
}

// Four ways of editing: a list, one in force for a while, a function on live rows, and step by
// step.
TEST_P(Page, FourWaysOfEditingMeanTheSame) {
  const auto& attention = model_->layers[1].self_attn;
  const std::vector<float> v(model_->info().hidden_size, 0.5F);
  const auto plain = logits(*engine_, ids());
  Edits e;
  e += attention.attention_head_outputs.head(1) = 0.F;
  e += model_->layers[1].layer_output.at(kLast) += 4.F * Operand(v);
  e += model_->layers[0].self_attn.attention_scores.key(0) = kHidden;
  e += model_->layers[1].mlp.mlp_neurons.neuron(11).clamp(0.F, 2.F);
  const auto expected = logits(*engine_, ids(), e);
  EXPECT_NE(expected, plain);
  const auto json = to_json(e);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*edits_from_json(*json), e);

  {
    const auto guard = engine_->with(e);
    EXPECT_EQ(logits(*engine_, ids()), expected);
  }
  EXPECT_EQ(logits(*engine_, ids()), plain);

  Trace t(*engine_, ids());
  size_t rows = 0;
  t.edit(attention.attention_probabilities, [&](const View& p, const Where& w) {
    p.head(1).key(0).fill(0);
    p.normalize();
    EXPECT_EQ(w.layer, 1U);
    rows += w.rows;
  });
  const auto out = t.read(attention.attention_probabilities);
  const Traced traced = run(t);
  EXPECT_EQ(rows, ids().size());
  const size_t n = ids().size();
  EXPECT_EQ(traced[out].floats[(n + n - 1) * n], 0);

  Live m(*engine_, ids());
  auto x = m.run_until(model_->layers[0].layer_output);
  ASSERT_TRUE(x.ok()) << x.error().to_string();
  x->row(n - 1).add(v);
  const auto lens = project_on_vocab(*engine_, x->row(n - 1).copy());
  ASSERT_TRUE(lens.ok());
  const auto finished = m.finish({{kValues.logits}});
  ASSERT_TRUE(finished.ok());
  EXPECT_EQ(finished->of(0).floats,
            logits(*engine_, ids(), {model_->layers[0].layer_output.at(kLast) += Operand(v)}));
}

INSTANTIATE_TEST_SUITE_P(Variants, Page, testing::ValuesIn(test::kDenseVariants),
                         test::folder_name);

}  // namespace
}  // namespace phidias
