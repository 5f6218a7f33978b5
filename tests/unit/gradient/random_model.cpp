#include "random_model.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace phidias::test {

Matrix random_matrix(size_t rows, size_t cols, Format format, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1.0F / std::sqrt(static_cast<float>(cols)));
  std::vector<float> values(rows * cols);
  for (float& value : values) value = normal(random);
  const FormatRow& row = format_row(format);
  const auto bytes = std::make_shared<std::vector<std::byte>>(row.matrix_bytes(rows, cols));
  for (size_t first = 0; first < rows; first += row.tile_rows) {
    row.encode_tile(values.data() + first * cols, std::min<size_t>(row.tile_rows, rows - first),
                    nullptr, bytes->data() + first / row.tile_rows * row.tile_bytes(cols), cols);
  }
  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.blocks.push_back({format, bytes->data(), rows, bytes});
  return matrix;
}

namespace {

std::vector<float> random_vector(size_t n, float mean, std::mt19937& random) {
  std::normal_distribution<float> normal(mean, 0.2F);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

ModelSpec small_spec(uint32_t unit) {
  ModelSpec spec;
  spec.type = "random";
  spec.vocab = 53;
  spec.width = unit;
  spec.layers = 3;
  spec.ffn_width = 2 * unit;
  spec.attention.heads = 4;
  spec.attention.kv_heads = 2;
  spec.attention.head_dim = unit / 4;
  spec.mask.window = 5;
  spec.rope.rotary_dims = unit / 8;
  LongRope rope;
  for (size_t i = 0; i < spec.rope.rotary_dims / 2; ++i) {
    rope.short_factors.push_back(1.0F + 0.1F * static_cast<float>(i));
    rope.long_factors.push_back(2.0F + 0.3F * static_cast<float>(i));
  }
  rope.original_context = 6;
  rope.short_magnitude = 1.1;
  rope.long_magnitude = 1.2;
  spec.rope.long_rope = rope;
  spec.max_context = 64;
  return spec;
}

ModelSpec relative_spec(uint32_t unit) {
  ModelSpec spec = small_spec(unit);
  spec.norm = Norm::kLayer;
  spec.gating = Gating::kGegelu;
  spec.gating_limit = 0.75F;
  spec.bias = {.qkv = true, .attention_output = true, .ffn = true, .head = true};
  spec.attention.scale = 0.2F;
  spec.mask.window = 0;
  spec.mask.blocks =
      BlockSparse{.block = 2, .local_blocks = 2, .stride = 3, .head_step = 1, .dense_every = 3};
  spec.embedding_scale = 3;
  spec.logit_divisor = 2;
  spec.masked_ids = {50, 51};
  return spec;
}

ModelSpec experts_spec(uint32_t unit) {
  ModelSpec spec = small_spec(unit);
  spec.norm = Norm::kLayer;
  spec.experts = ExpertsSpec{.count = 4, .band = 0.9F};
  return spec;
}

RandomModel random_model(const ModelSpec& spec, Format format, uint32_t seed) {
  std::mt19937 random(seed);
  RandomModel model;
  model.spec = spec;
  const AttentionSpec& attention = spec.attention;
  const auto matrix = [&](size_t rows, size_t cols) {
    return random_matrix(rows, cols, format, random);
  };
  model.weights.embedding = random_matrix(spec.vocab, spec.width, format, random);
  const auto bias = [&](bool wanted, size_t n) {
    return wanted ? random_vector(n, 0, random) : std::vector<float>();
  };
  const bool centred = spec.norm == Norm::kLayer;
  for (size_t i = 0; i < spec.layers; ++i) {
    LayerWeights layer;
    layer.attention_norm_bias = bias(centred, spec.width);
    layer.ffn_norm_bias = bias(centred, spec.width);
    layer.qkv_bias = bias(spec.bias.qkv, attention.qkv_width());
    layer.attention_output_bias = bias(spec.bias.attention_output, spec.width);
    layer.gate_up_bias = bias(spec.bias.ffn, 2UL * spec.ffn_width);
    layer.down_bias = bias(spec.bias.ffn, spec.width);
    layer.attention_norm = random_vector(spec.width, 1, random);
    // Three blocks, as from a file with separate tensors.
    layer.qkv = matrix(attention.query_width(), spec.width);
    for (const size_t rows : {attention.kv_width(), attention.kv_width()}) {
      layer.qkv.blocks.push_back(matrix(rows, spec.width).blocks.front());
      layer.qkv.rows += rows;
    }
    layer.attention_output = matrix(spec.width, attention.query_width());
    layer.ffn_norm = random_vector(spec.width, 1, random);
    if (spec.experts) {
      layer.router = matrix(spec.experts->count, spec.width);
      for (size_t e = 0; e < spec.experts->count; ++e) {
        layer.experts.push_back(
            {matrix(2UL * spec.ffn_width, spec.width), matrix(spec.width, spec.ffn_width)});
      }
      model.weights.layers.push_back(std::move(layer));
      continue;
    }
    layer.gate_up = matrix(2UL * spec.ffn_width, spec.width);
    layer.down = matrix(spec.width, spec.ffn_width);
    model.weights.layers.push_back(std::move(layer));
  }
  model.weights.final_norm = random_vector(spec.width, 1, random);
  model.weights.final_norm_bias = bias(centred, spec.width);
  model.weights.head = matrix(spec.vocab, spec.width);
  model.weights.head_bias = bias(spec.bias.head, spec.vocab);
  return model;
}

std::vector<int32_t> random_tokens(const ModelSpec& spec, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % spec.vocab);
  return tokens;
}

}  // namespace phidias::test
