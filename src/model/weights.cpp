#include "model/weights.h"

#include "base/try.h"

namespace phidias {

const TensorNames kHuggingFaceNames{
    .embedding = "model.embed_tokens.weight",
    .final_norm = "model.norm.weight",
    .head = "lm_head.weight",
    .attention_norm = "model.layers.{i}.input_layernorm.weight",
    .qkv = "model.layers.{i}.self_attn.qkv_proj.weight",
    .query = "model.layers.{i}.self_attn.q_proj.weight",
    .key = "model.layers.{i}.self_attn.k_proj.weight",
    .value = "model.layers.{i}.self_attn.v_proj.weight",
    .attention_output = "model.layers.{i}.self_attn.o_proj.weight",
    .ffn_norm = "model.layers.{i}.post_attention_layernorm.weight",
    .gate_up = "model.layers.{i}.mlp.gate_up_proj.weight",
    .gate = "model.layers.{i}.mlp.gate_proj.weight",
    .up = "model.layers.{i}.mlp.up_proj.weight",
    .down = "model.layers.{i}.mlp.down_proj.weight",
};

// The fused gate and up matrix has the name that the up matrix has where both are apart.
const TensorNames kGgufNames{
    .embedding = "token_embd.weight",
    .final_norm = "output_norm.weight",
    .head = "output.weight",
    .attention_norm = "blk.{i}.attn_norm.weight",
    .qkv = "blk.{i}.attn_qkv.weight",
    .query = "blk.{i}.attn_q.weight",
    .key = "blk.{i}.attn_k.weight",
    .value = "blk.{i}.attn_v.weight",
    .attention_output = "blk.{i}.attn_output.weight",
    .ffn_norm = "blk.{i}.ffn_norm.weight",
    .gate_up = "blk.{i}.ffn_up.weight",
    .gate = "blk.{i}.ffn_gate.weight",
    .up = "blk.{i}.ffn_up.weight",
    .down = "blk.{i}.ffn_down.weight",
};

namespace {

std::string name_of(std::string_view pattern, size_t layer) {
  std::string name(pattern);
  name.replace(name.find("{i}"), 3, std::to_string(layer));
  return name;
}

}  // namespace

Result<ModelWeights> bind_weights(const ModelSpec& spec, const TensorNames& names,
                                  const TensorSet& tensors) {
  Binder binder(tensors);
  ModelWeights weights;
  weights.mappings = tensors.mappings;
  const AttentionSpec& attention = spec.attention;
  const size_t width = spec.width;
  const size_t interleaved = spec.interleaved_rotation ? attention.head_dim : 0;
  // A configuration may state more layers than the file could hold: stop at what the file has names
  // for.
  const size_t layers = std::min<size_t>(spec.layers, tensors.tensors.size() + 1);

  weights.embedding = binder.matrix(std::string(names.embedding), spec.vocab, width);
  for (size_t i = 0; i < layers; ++i) {
    auto name = [i](std::string_view pattern) { return name_of(pattern, i); };
    LayerWeights layer;
    layer.attention_norm = binder.vector(name(names.attention_norm), width);
    layer.qkv = binder.matrix(name(names.qkv),
                              {{name(names.query), attention.query_width(), interleaved},
                               {name(names.key), attention.kv_width(), interleaved},
                               {name(names.value), attention.kv_width(), 0}},
                              width);
    layer.attention_output =
        binder.matrix(name(names.attention_output), width, attention.query_width());
    layer.ffn_norm = binder.vector(name(names.ffn_norm), width);
    layer.gate_up = binder.matrix(
        name(names.gate_up),
        {{name(names.gate), spec.ffn_width, 0}, {name(names.up), spec.ffn_width, 0}}, width);
    layer.down = binder.matrix(name(names.down), width, spec.ffn_width);
    weights.layers.push_back(std::move(layer));
  }
  weights.final_norm = binder.vector(std::string(names.final_norm), width);
  if (spec.tied_head) {
    binder.ignore(std::string(names.head));
    weights.head = weights.embedding;
  } else {
    weights.head = binder.matrix(std::string(names.head), spec.vocab, width);
  }
  // Old checkpoints save a table that follows from the configuration; GGUF keeps the LongRoPE
  // factors as tensors, which the variant has read already.
  binder.ignore_suffix(".rotary_emb.inv_freq");
  if (spec.rope.long_rope) {
    binder.ignore("rope_factors_long.weight");
    binder.ignore("rope_factors_short.weight");
  }
  PHIDIAS_CHECK_OK(binder.finish());
  return weights;
}

size_t ModelWeights::bytes(const ModelSpec& spec) const {
  size_t total = final_norm.size() * sizeof(float);
  const_cast<ModelWeights*>(this)->for_each_matrix(
      spec, [&total](const Matrix& matrix) { total += matrix.bytes(); });
  for (const LayerWeights& layer : layers)
    total += (layer.attention_norm.size() + layer.ffn_norm.size()) * sizeof(float);
  return total;
}

size_t ModelWeights::mapped_bytes(const ModelSpec& spec) const {
  size_t total = 0;
  const_cast<ModelWeights*>(this)->for_each_matrix(spec, [&total](const Matrix& matrix) {
    for (const RowBlock& block : matrix.blocks) {
      if (block.owner == nullptr) {
        total += block.rows * format_row(block.format).row_bytes(matrix.cols);
      }
    }
  });
  return total;
}

size_t ModelWeights::bytes_per_token(const ModelSpec& spec) const {
  const size_t row = embedding.rows > 0 ? embedding.bytes() / embedding.rows : 0;
  return bytes(spec) - (spec.tied_head ? 0 : embedding.bytes()) + row;
}

}  // namespace phidias
