#include "random_model.h"

#include <cmath>
#include <memory>

namespace phidias::test {

Matrix random_matrix(size_t rows, size_t cols, Format format, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1.0F / std::sqrt(static_cast<float>(cols)));
  std::vector<float> values(rows * cols);
  for (float& value : values) value = normal(random);
  const FormatRow& row = format_row(format);
  const auto bytes = std::make_shared<std::vector<std::byte>>(rows * row.row_bytes(cols));
  row.encode(values.data(), bytes->data(), values.size());
  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.blocks.push_back({format, bytes->data(), rows, bytes});
  return matrix;
}

namespace {

std::vector<float> random_norm(size_t n, std::mt19937& random) {
  std::normal_distribution<float> normal(1, 0.2F);
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

RandomModel random_model(const ModelSpec& spec, Format format, uint32_t seed) {
  std::mt19937 random(seed);
  RandomModel model;
  model.spec = spec;
  const AttentionSpec& attention = spec.attention;
  const auto matrix = [&](size_t rows, size_t cols) {
    return random_matrix(rows, cols, format, random);
  };
  model.weights.embedding = random_matrix(spec.vocab, spec.width, format, random);
  for (size_t i = 0; i < spec.layers; ++i) {
    LayerWeights layer;
    layer.attention_norm = random_norm(spec.width, random);
    // Three blocks, as from a file with separate tensors.
    layer.qkv = matrix(attention.query_width(), spec.width);
    for (const size_t rows : {attention.kv_width(), attention.kv_width()}) {
      layer.qkv.blocks.push_back(matrix(rows, spec.width).blocks.front());
      layer.qkv.rows += rows;
    }
    layer.attention_output = matrix(spec.width, attention.query_width());
    layer.ffn_norm = random_norm(spec.width, random);
    layer.gate_up = matrix(2UL * spec.ffn_width, spec.width);
    layer.down = matrix(spec.width, spec.ffn_width);
    model.weights.layers.push_back(std::move(layer));
  }
  model.weights.final_norm = random_norm(spec.width, random);
  model.weights.head = matrix(spec.vocab, spec.width);
  return model;
}

std::vector<int32_t> random_tokens(const ModelSpec& spec, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % spec.vocab);
  return tokens;
}

}  // namespace phidias::test
