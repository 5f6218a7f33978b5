// Gradients of weights out of the products that a backward pass shows: what training is made of.
#include <algorithm>
#include <cmath>
#include <map>

#include "gradient/collector.h"
#include "support/checkpoint_model.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias {
namespace {

class WeightGradients final : public GradientCollector {
 public:
  WeightGradients(const ModelSpec& spec, const std::vector<int32_t>& tokens, Objective objective,
                  std::map<std::string, std::vector<double>>& sums)
      : GradientCollector(spec, tokens.size(), std::move(objective), {}),
        spec_(&spec),
        tokens_(&tokens),
        sums_(&sums) {}

  bool wants_weights() const override { return true; }
  SiteMask sites(size_t layer) const override {
    return GradientCollector::sites(layer) | mask_of(Site::kTokenEmbeddings);
  }
  void visit(Site site, size_t layer, const SiteRows& gradient) override {
    GradientCollector::visit(site, layer, gradient);
    if (site != Site::kTokenEmbeddings) return;
    auto& sum = sum_of("model.embed_tokens.weight", size_t{spec_->vocab} * spec_->width);
    for (size_t r = 0; r < gradient.rows; ++r) {
      double* row = sum.data() + static_cast<size_t>((*tokens_)[r]) * spec_->width;
      for (size_t i = 0; i < spec_->width; ++i)
        row[i] += double{gradient.data[r * gradient.stride + i]};
    }
  }
  void visit_product(WeightMatrix weight, size_t layer, const ProductRows& rows) override {
    const AttentionSpec& attention = spec_->attention;
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    switch (weight) {
      case WeightMatrix::kQkv:
        return add(prefix + "self_attn.qkv_proj.weight", attention.qkv_width(), spec_->width, rows);
      case WeightMatrix::kAttentionOutput:
        return add(prefix + "self_attn.o_proj.weight", spec_->width, attention.query_width(), rows);
      case WeightMatrix::kGateUp:
        return add(prefix + "mlp.gate_up_proj.weight", 2UL * spec_->ffn_width, spec_->width, rows);
      case WeightMatrix::kDown:
        return add(prefix + "mlp.down_proj.weight", spec_->width, spec_->ffn_width, rows);
      case WeightMatrix::kHead:
        return add(spec_->tied_head ? "model.embed_tokens.weight" : "lm_head.weight", spec_->vocab,
                   spec_->width, rows);
    }
  }
  void visit_norm(WeightVector weight, size_t layer, const NormRows& rows) override {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    auto& sum =
        sum_of(weight == WeightVector::kAttentionNorm ? prefix + "input_layernorm.weight"
               : weight == WeightVector::kFfnNorm     ? prefix + "post_attention_layernorm.weight"
                                                      : "model.norm.weight",
               spec_->width);
    for (size_t r = 0; r < rows.rows; ++r) {
      const float* x = rows.input + r * spec_->width;
      double squares = 0;
      for (size_t i = 0; i < spec_->width; ++i) squares += double{x[i]} * double{x[i]};
      const double root = std::sqrt(squares / spec_->width + double{spec_->norm_epsilon});
      for (size_t i = 0; i < spec_->width; ++i)
        sum[i] += double{x[i]} / root * double{rows.output_gradient[r * spec_->width + i]};
    }
  }

 private:
  std::vector<double>& sum_of(const std::string& name, size_t count) {
    auto& sum = (*sums_)[name];
    sum.resize(count);
    return sum;
  }
  void add(const std::string& name, size_t outs, size_t cols, const ProductRows& rows) {
    auto& sum = sum_of(name, outs * cols);
    for (size_t r = 0; r < rows.rows; ++r) {
      for (size_t o = 0; o < outs; ++o) {
        const double gradient = rows.output_gradient[r * outs + o];
        for (size_t c = 0; c < cols; ++c)
          sum[o * cols + c] += gradient * double{rows.input[r * cols + c]};
      }
    }
  }

  const ModelSpec* spec_;
  const std::vector<int32_t>* tokens_;
  std::map<std::string, std::vector<double>>* sums_;
};

class WeightGradientReference : public testing::TestWithParam<const char*> {};

TEST_P(WeightGradientReference, LossAndGradientsOfWeightsAreTheReferences) {
  const auto folder = test::reference(std::filesystem::path("models") / GetParam());
  PHIDIAS_NEEDS_REFERENCE(folder / "train.safetensors");
  const auto expected = test::read_tensors(folder / "train.safetensors");
  const Json cases = test::read_json(folder / "cases.json");
  const test::CheckpointModel model = test::read_model(folder);
  const std::vector<float>& weights = expected.floats.at("weights");

  ThreadPool threads(2);
  RunContext context(best_table(), threads, Numerics::kExact);
  std::map<std::string, std::vector<double>> sums;
  double loss = 0;
  size_t predicted = 0;
  for (const Json& sequence : cases["train"]["sequences"]) {
    const auto tokens = sequence.get<std::vector<int32_t>>();
    std::vector<float> negative;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) negative.push_back(-weights[predicted++]);
    auto run = run_and_store(model.spec, model.weights, context, tokens,
                             rotary_factors_for(model.spec.rope, tokens.size()));
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    WeightGradients collector(model.spec, tokens, weighted_log_probs(tokens, negative), sums);
    const Status status =
        run_backward(model.spec, model.weights, best_table(), threads, *run, nullptr, collector);
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    loss += collector.logits_part();
  }
  EXPECT_EQ(predicted, weights.size());
  EXPECT_NEAR(loss, expected.floats.at("loss")[0], 5e-5);
  size_t compared = 0;
  for (const auto& [name, values] : expected.floats) {
    if (name.rfind("grad.", 0) != 0) continue;
    const std::vector<double>& actual = sums.at(name.substr(5));
    ASSERT_EQ(actual.size(), values.size()) << name;
    double largest = 0;
    double distance = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(double{values[i]}));
      distance = std::max(distance, std::abs(actual[i] - double{values[i]}));
    }
    EXPECT_LT(distance, 2e-5 * largest) << name;
    ++compared;
  }
  EXPECT_GE(compared, 9U);
}

INSTANTIATE_TEST_SUITE_P(Variants, WeightGradientReference,
                         testing::Values("mini-4k", "medium-4k", "mini-128k", "medium-128k-su",
                                         "phi-4-mini", "phi-4"),
                         test::folder_name);

}  // namespace
}  // namespace phidias
