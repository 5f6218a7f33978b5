// What block-sparse attention costs against dense attention, by whole passes of models that are
// alike but for their masks: heads of the published Phi-3-small, little else.
//   sparse_attention_bench [tokens]
// The time of a model that sees one position is taken off both, so that attention alone is left.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/json.h"
#include "base/thread_pool.h"
#include "engine/stepper.h"
#include "model/registry.h"

namespace phidias {
namespace {

constexpr uint32_t kVocabulary = 64;
constexpr int kRepetitions = 2;

enum class Mask { kDense, kSparse, kItself };

ModelSpec spec_of(Mask mask, uint32_t tokens) {
  Json config = *parse_json(
      R"({"model_type": "phi3small", "hidden_size": 128, "ff_intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "layer_norm_epsilon": 1e-05,
    "blocksparse_block_size": 64, "blocksparse_num_local_blocks": 16, "blocksparse_vert_stride": 8})");
  config["vocab_size"] = kVocabulary;
  config["max_position_embeddings"] = tokens + 64;
  config["dense_attention_every_n_layers"] = mask == Mask::kSparse ? 0U : 1U;
  ModelSpec spec = *spec_from_config(JsonReader(config, "config.json"));
  if (mask == Mask::kItself) spec.mask.window = 1;
  return spec;
}

// Keys that a query sees, summed over `rows` queries and all heads, one of each 64 counted.
double visible(const ModelSpec& spec, uint32_t first, uint32_t end) {
  double keys = 0;
  for (uint32_t position = first; position < end; position += 64) {
    for (uint32_t head = 0; head < spec.attention.heads; ++head) {
      for (uint32_t key = 0; key <= position; ++key)
        keys += spec.mask.sees(0, head, position, key) ? 1 : 0;
    }
  }
  return keys;
}

class RandomModel {
 public:
  explicit RandomModel(const ModelSpec& spec) : spec_(spec) {
    const AttentionSpec& attention = spec.attention;
    weights_.embedding = matrix(kVocabulary, spec.width);
    weights_.head = weights_.embedding;
    weights_.final_norm = weights_.final_norm_bias = vector(spec.width);
    LayerWeights layer;
    layer.attention_norm = layer.attention_norm_bias = vector(spec.width);
    layer.ffn_norm = layer.ffn_norm_bias = vector(spec.width);
    layer.qkv = matrix(attention.qkv_width(), spec.width);
    layer.qkv_bias = vector(attention.qkv_width());
    layer.attention_output = matrix(spec.width, attention.query_width());
    layer.attention_output_bias = layer.down_bias = vector(spec.width);
    layer.gate_up = matrix(2UL * spec.ffn_width, spec.width);
    layer.gate_up_bias = vector(2UL * spec.ffn_width);
    layer.down = matrix(spec.width, spec.ffn_width);
    weights_.layers.push_back(std::move(layer));
  }
  const ModelSpec& spec() const { return spec_; }
  const ModelWeights& weights() const { return weights_; }

 private:
  std::vector<float> vector(size_t count) {
    std::normal_distribution<float> normal(0, 0.1F);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  Matrix matrix(size_t rows, size_t cols) {
    auto values = std::make_shared<std::vector<float>>(vector(rows * cols));
    const auto* data = reinterpret_cast<const std::byte*>(values->data());
    return {.rows = rows, .cols = cols, .blocks = {{Format::kF32, data, rows, std::move(values)}}};
  }

  ModelSpec spec_;
  std::mt19937 random_{1};
  ModelWeights weights_;
};

struct Seconds {
  double prompt;
  double step;  // of one row after it
};

Seconds measure(const RandomModel& model, uint32_t tokens, ParallelFor& threads) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  StepperOptions options;
  options.context = tokens + 64;
  options.cache_budget = uint64_t{1} << 32;
  Stepper stepper(model.spec(), model.weights(), best_table(), threads, options);
  Seconds best = {1e30, 1e30};
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const SequenceId sequence = stepper.open({});
    std::vector<Row> rows;
    for (uint32_t i = 0; i < tokens; ++i)
      rows.push_back({static_cast<TokenId>(i % kVocabulary), sequence, i, false});
    auto since = Clock::now();
    if (!stepper.step(rows, {}).ok()) std::abort();
    best.prompt = std::min(best.prompt, seconds(since));
    for (uint32_t i = tokens; i < tokens + 32; ++i) {
      const Row row{0, sequence, i, false};
      since = Clock::now();
      if (!stepper.step({&row, 1}, {}).ok()) std::abort();
      best.step = std::min(best.step, seconds(since));
    }
    stepper.close(sequence);
  }
  return best;
}

int run(uint32_t tokens) {
  ThreadPool threads(usable_cores());
  const RandomModel dense(spec_of(Mask::kDense, tokens));
  const RandomModel sparse(spec_of(Mask::kSparse, tokens));
  const RandomModel alone(spec_of(Mask::kItself, tokens));
  const Seconds of_dense = measure(dense, tokens, threads);
  const Seconds of_sparse = measure(sparse, tokens, threads);
  const Seconds of_alone = measure(alone, tokens, threads);
  std::printf("%u tokens, one layer of 32 heads over 8 of 128; seconds\n", tokens);
  std::printf("            dense    sparse   itself alone  share of time  share of keys\n");
  std::printf("prompt   %8.3f  %8.3f  %8.3f      %8.3f       %8.3f\n", of_dense.prompt,
              of_sparse.prompt, of_alone.prompt,
              (of_sparse.prompt - of_alone.prompt) / (of_dense.prompt - of_alone.prompt),
              visible(sparse.spec(), 0, tokens) / visible(dense.spec(), 0, tokens));
  std::printf(
      "a step   %8.6f  %8.6f  %8.6f      %8.3f       %8.3f\n", of_dense.step, of_sparse.step,
      of_alone.step, (of_sparse.step - of_alone.step) / (of_dense.step - of_alone.step),
      visible(sparse.spec(), tokens, tokens + 1) / visible(dense.spec(), tokens, tokens + 1));
  return 0;
}

}  // namespace
}  // namespace phidias

int main(int count, char** arguments) {
  const int tokens = count > 1 ? std::atoi(arguments[1]) : 8000;
  return phidias::run(static_cast<uint32_t>(std::clamp(tokens, 1, 100000)));
}
