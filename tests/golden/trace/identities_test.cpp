// What holds between the values of one pass, by definition: to the bit, but for sums in another
// order.
#include <cmath>

#include "api/model_impl.h"
#include "base/thread_pool.h"
#include "kernels/attention_explicit.h"
#include "kernels/table.h"
#include "model/blocks/linear.h"
#include "trace_case.h"

namespace phidias {
namespace {

// What attention is by definition, written out: chains in double.
float score_of(const float* query, const float* key, size_t dim, float scale) {
  double sum = 0;
  for (size_t d = 0; d < dim; ++d)
    sum = std::fma(static_cast<double>(key[d]), static_cast<double>(query[d]), sum);
  return static_cast<float>(sum * static_cast<double>(scale));
}
float mixed_of(const float* probabilities, const float* values, size_t stride, size_t count) {
  double sum = 0;
  for (size_t k = 0; k < count; ++k) {
    sum = std::fma(static_cast<double>(probabilities[k]), static_cast<double>(values[k * stride]),
                   sum);
  }
  return static_cast<float>(sum);
}

class Identities : public test::TraceCase {
 protected:
  void SetUp() override {
    TraceCase::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    engine_ = engine();
    ids_ = ids();
    values_ = all_values(
        *engine_, ids_, {}, {},
        {"layers[*].attention_queries_pre_rotary", "layers[*].attention_keys_pre_rotary",
         "layers[*].rotary_cos", "layers[*].rotary_sin", "layers[*].attention_norm_scale",
         "layers[*].mlp_norm_scale", "final_norm_scale", "layers[*].mlp_gate", "layers[*].mlp_up",
         "layers[*].attention_head_contributions"});
  }

  const std::vector<float>& of(const std::string& name) const {
    const auto at = values_.find(name);
    EXPECT_NE(at, values_.end()) << name;
    return at->second.floats;
  }
  const std::vector<float>& of(size_t layer, const std::string& name) const {
    return of("layers." + std::to_string(layer) + "." + name);
  }
  const ModelSpec& spec() const { return model_->impl().spec; }
  const ModelWeights& weights() const { return model_->impl().weights; }

  static std::vector<float> sum(std::vector<float> a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }
  static std::vector<float> rows_of(const Matrix& matrix, size_t row) {
    std::vector<float> values(matrix.cols);
    decode_row(matrix, row, values.data());
    return values;
  }
  std::vector<float> normed(const std::vector<float>& stream,
                            const std::vector<float>& weight) const {
    std::vector<float> out(stream.size());
    for (size_t at = 0; at < stream.size(); at += spec().width) {
      best_table().rms_norm(stream.data() + at, weight.data(), spec().norm_epsilon, out.data() + at,
                            spec().width);
    }
    return out;
  }

  std::unique_ptr<Engine> engine_;
  std::vector<TokenId> ids_;
  std::map<std::string, Tensor> values_;
};

// I1, and I2 at the first layer.
TEST_P(Identities, EmbeddingsAreTheTokensRowsAndTheFirstLayersInput) {
  const auto& embeddings = of("token_embeddings");
  for (size_t i = 0; i < ids_.size(); ++i) {
    const auto row = rows_of(weights().embedding, static_cast<size_t>(ids_[i]));
    EXPECT_TRUE(std::equal(row.begin(), row.end(),
                           embeddings.begin() + static_cast<ptrdiff_t>(i * spec().width)));
  }
  EXPECT_EQ(of(0, "layer_input"), embeddings);
}

// I2, I12, I16, I21.
TEST_P(Identities, TheStreamIsPassedOnAndAddedToInTheBlocksOrder) {
  for (size_t l = 0; l < spec().layers; ++l) {
    if (l > 0) {
      EXPECT_EQ(of(l, "layer_input"), of(l - 1, "layer_output"));
    }
    EXPECT_EQ(of(l, "layer_mid"), sum(of(l, "layer_input"), of(l, "self_attn.attention_output")));
    EXPECT_EQ(of(l, "layer_output"), sum(of(l, "layer_mid"), of(l, "mlp.mlp_output")));
  }
  auto folded = of("token_embeddings");
  for (size_t l = 0; l < spec().layers; ++l)
    folded = sum(sum(folded, of(l, "self_attn.attention_output")), of(l, "mlp.mlp_output"));
  EXPECT_EQ(folded, of(spec().layers - 1, "layer_output"));
}

// I3, I13, I17; I18, second half.
TEST_P(Identities, NormsAreThoseOfTheirInputs) {
  for (size_t l = 0; l < spec().layers; ++l) {
    EXPECT_EQ(of(l, "attention_norm_output"),
              normed(of(l, "layer_input"), weights().layers[l].attention_norm));
    EXPECT_EQ(of(l, "mlp_norm_output"), normed(of(l, "layer_mid"), weights().layers[l].ffn_norm));
    EXPECT_EQ(of(l, "mlp_input"), of(l, "mlp_norm_output"));
    for (size_t i = 0; i < of(l, "attention_norm_output").size(); ++i) {
      const double expected =
          static_cast<double>(of(l, "layer_input")[i]) *
          of(l, "attention_norm_scale")[i / spec().width] *
          static_cast<double>(weights().layers[l].attention_norm[i % spec().width]);
      EXPECT_NEAR(of(l, "attention_norm_output")[i], expected, 1e-6 * std::abs(expected) + 1e-12);
    }
  }
  EXPECT_EQ(of("final_norm_output"),
            normed(of(spec().layers - 1, "layer_output"), weights().final_norm));
  EXPECT_EQ(of("logits"), of("lm_head_output"));
}

// I4, I5.
TEST_P(Identities, HeadsAreSlicesOfTheFusedProjectionRotated) {
  const AttentionSpec& a = spec().attention;
  const size_t n = ids_.size();
  const size_t half = spec().rope.rotary_dims / 2;
  for (size_t l = 0; l < spec().layers; ++l) {
    const auto& fused = of(l, "self_attn.qkv_output");
    for (size_t s = 0; s < n; ++s) {
      const float* row = fused.data() + s * a.qkv_width();
      const float* cosine = of(l, "self_attn.rotary_cos").data() + s * half;
      const float* sine = of(l, "self_attn.rotary_sin").data() + s * half;
      const auto expect = [&](const std::string& name, size_t heads, size_t offset, bool rotated) {
        for (size_t h = 0; h < heads; ++h) {
          std::vector<float> expected(row + offset + h * a.head_dim,
                                      row + offset + (h + 1) * a.head_dim);
          if (rotated) best_table().rope(expected.data(), cosine, sine, half);
          const float* actual = of(l, name).data() + (h * n + s) * a.head_dim;
          EXPECT_TRUE(std::equal(expected.begin(), expected.end(), actual)) << name;
          for (size_t d = spec().rope.rotary_dims; d < a.head_dim; ++d)
            EXPECT_EQ(actual[d], row[offset + h * a.head_dim + d]);
        }
      };
      expect("self_attn.attention_queries_pre_rotary", a.heads, 0, false);
      expect("self_attn.attention_queries", a.heads, 0, true);
      expect("self_attn.attention_keys_pre_rotary", a.kv_heads, a.query_width(), false);
      expect("self_attn.attention_keys", a.kv_heads, a.query_width(), true);
      expect("self_attn.attention_values", a.kv_heads, a.query_width() + a.kv_width(), false);
    }
  }
}

// I7, I8, I9, I10; I11 as a sum over heads.
TEST_P(Identities, AttentionIsScoresThenSoftmaxThenMixtureThenProjection) {
  const AttentionSpec& a = spec().attention;
  const size_t n = ids_.size();
  for (size_t l = 0; l < spec().layers; ++l) {
    const auto& scores = of(l, "self_attn.attention_scores");
    const auto& probabilities = of(l, "self_attn.attention_probabilities");
    const auto& heads = of(l, "self_attn.attention_head_outputs");
    EXPECT_EQ(heads, of(l, "self_attn.attention_premix"));
    for (size_t h = 0; h < a.heads; ++h) {
      const float* keys = of(l, "self_attn.attention_keys").data() + h / a.group() * n * a.head_dim;
      const float* values =
          of(l, "self_attn.attention_values").data() + h / a.group() * n * a.head_dim;
      for (size_t q = 0; q < n; ++q) {
        const size_t at = (h * n + q) * n;
        const size_t first = spec().mask.first_key(static_cast<uint32_t>(q));
        std::vector<float> expected(n, std::numeric_limits<float>::lowest());
        const float* query = of(l, "self_attn.attention_queries").data() + (h * n + q) * a.head_dim;
        for (size_t k = first; k <= q; ++k)
          expected[k] = score_of(query, keys + k * a.head_dim, a.head_dim, a.score_scale());
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                               scores.begin() + static_cast<ptrdiff_t>(at)));
        std::vector<float> softened(n);
        std::vector<double> scratch(n + 64);
        attention_softmax(best_table(), scores.data() + at + first, q + 1 - first, scratch.data(),
                          softened.data() + first);
        EXPECT_TRUE(std::equal(softened.begin(), softened.end(),
                               probabilities.begin() + static_cast<ptrdiff_t>(at)));
        double total = 0;
        for (size_t k = 0; k < n; ++k) {
          if (k < first || k > q) {
            EXPECT_EQ(probabilities[at + k], 0.0F);
          }
          total += static_cast<double>(probabilities[at + k]);
        }
        EXPECT_NEAR(total, 1, 1e-6);
        std::vector<float> mixed(a.head_dim);
        for (size_t d = 0; d < a.head_dim; ++d) {
          mixed[d] = mixed_of(probabilities.data() + at + first, values + first * a.head_dim + d,
                              a.head_dim, q + 1 - first);
        }
        EXPECT_TRUE(
            std::equal(mixed.begin(), mixed.end(), heads.data() + (q * a.heads + h) * a.head_dim));
      }
    }
    const auto& contributions = of(l, "self_attn.attention_head_contributions");
    const auto& output = of(l, "self_attn.attention_output");
    double largest = 0;
    for (const float x : output) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (size_t s = 0; s < n; ++s) {
      for (size_t c = 0; c < spec().width; ++c) {
        double together = 0;
        for (size_t h = 0; h < a.heads; ++h)
          together += static_cast<double>(contributions[(s * a.heads + h) * spec().width + c]);
        EXPECT_NEAR(together, output[s * spec().width + c], 1e-6 * largest);
      }
    }
  }
}

// I14.
TEST_P(Identities, NeuronsAreUpTimesTheActivatedGate) {
  const size_t f = spec().ffn_width;
  const std::vector<float> ones(f, 1.0F);
  for (size_t l = 0; l < spec().layers; ++l) {
    const auto& fused = of(l, "mlp.gate_up_output");
    for (size_t s = 0; s < ids_.size(); ++s) {
      std::vector<float> activation(f);
      best_table().silu_mul(fused.data() + s * 2 * f, ones.data(), activation.data(), f);
      for (size_t j = 0; j < f; ++j) {
        EXPECT_EQ(of(l, "mlp.mlp_gate")[s * f + j], fused[s * 2 * f + j]);
        EXPECT_EQ(of(l, "mlp.mlp_up")[s * f + j], fused[s * 2 * f + f + j]);
        EXPECT_EQ(of(l, "mlp.mlp_activation")[s * f + j], activation[j]);
        EXPECT_EQ(of(l, "mlp.mlp_neurons")[s * f + j], fused[s * 2 * f + f + j] * activation[j]);
      }
    }
  }
}

// I4, I11, I15, I18: the engine's own product of the value before, to the bit.
TEST_P(Identities, ProjectionsAreTheEnginesProductsOfWhatTheyRead) {
  ThreadPool threads(2);
  RunContext context(best_table(), threads, Numerics::kExact);
  const auto product = [&](const Matrix& matrix, const std::vector<float>& input) {
    const size_t rows = ids_.size();
    Activations x;
    std::copy(input.begin(), input.end(), x.resize(rows, matrix.cols));
    std::vector<float> out(rows * matrix.rows);
    linear(context, matrix, x, out.data(), matrix.rows, {});
    return out;
  };
  for (size_t l = 0; l < spec().layers; ++l) {
    const LayerWeights& layer = weights().layers[l];
    EXPECT_EQ(of(l, "self_attn.qkv_output"), product(layer.qkv, of(l, "attention_norm_output")));
    EXPECT_EQ(of(l, "self_attn.attention_output"),
              product(layer.attention_output, of(l, "self_attn.attention_premix")));
    EXPECT_EQ(of(l, "mlp.gate_up_output"), product(layer.gate_up, of(l, "mlp_input")));
    EXPECT_EQ(of(l, "mlp.mlp_output"), product(layer.down, of(l, "mlp.mlp_neurons")));
  }
  EXPECT_EQ(of("lm_head_output"), product(weights().head, of("final_norm_output")));
}

// I6: a turned pair keeps its length, times LongRoPE's magnitude.
TEST_P(Identities, RotationKeepsTheLengthOfEachPairTimesTheMagnitude) {
  const AttentionSpec& a = spec().attention;
  const size_t half = spec().rope.rotary_dims / 2;
  const auto length = [](const float* x, size_t i, size_t other) {
    return std::hypot(double{x[i]}, double{x[other]});
  };
  for (size_t l = 0; l < spec().layers; ++l) {
    const auto& cosine = of(l, "self_attn.rotary_cos");
    const auto& sine = of(l, "self_attn.rotary_sin");
    const double magnitude = std::hypot(double{cosine[0]}, double{sine[0]});
    if (model_->info().original_context == 0) {
      EXPECT_NEAR(magnitude, 1, 1e-6);
    } else {
      EXPECT_GT(magnitude, 1.05);
    }
    const auto& before = of(l, "self_attn.attention_queries_pre_rotary");
    const auto& after = of(l, "self_attn.attention_queries");
    for (size_t row = 0; row < before.size(); row += a.head_dim) {
      for (size_t i = 0; i < half; ++i) {
        const double expected = magnitude * length(before.data() + row, i, i + half);
        EXPECT_NEAR(length(after.data() + row, i, i + half), expected, 1e-6 * expected + 1e-9);
      }
      for (size_t i = 2 * half; i < a.head_dim; ++i) EXPECT_EQ(before[row + i], after[row + i]);
    }
  }
}

// I19.
TEST_P(Identities, TheNextTokensProbabilitiesAreTheSoftmaxOfTheLastLogits) {
  const auto& probabilities = of("next_token_probs");
  const float* logits = of("logits").data() + (ids_.size() - 1) * spec().vocab;
  const double largest = *std::max_element(logits, logits + spec().vocab);
  double sum = 0;
  for (size_t i = 0; i < spec().vocab; ++i)
    sum += std::exp(static_cast<double>(logits[i]) - largest);
  for (size_t i = 0; i < spec().vocab; ++i) {
    EXPECT_FLOAT_EQ(probabilities[i],
                    static_cast<float>(std::exp(static_cast<double>(logits[i]) - largest) / sum));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Identities, testing::ValuesIn(test::kDenseVariants),
                         test::folder_name);

}  // namespace
}  // namespace phidias
