#include "model/weights.h"

#include <algorithm>

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
    .router = "model.layers.{i}.block_sparse_moe.gate.weight",
    .expert_gate = "model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight",
    .expert_up = "model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight",
    .expert_down = "model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight",
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
    .router = "blk.{i}.ffn_gate_inp.weight",
    .expert_gate = "blk.{i}.ffn_gate_exps.weight",
    .expert_up = "blk.{i}.ffn_up_exps.weight",
    .expert_down = "blk.{i}.ffn_down_exps.weight",
};

namespace {

void replace(std::string& name, std::string_view mark, size_t number) {
  const size_t at = name.find(mark);
  if (at != std::string::npos) name.replace(at, mark.size(), std::to_string(number));
}

std::vector<float> in_order(const std::vector<float>& values, const std::vector<RowSpan>& order) {
  std::vector<float> result;
  if (values.empty()) return result;  // a problem that the binder knows
  for (const RowSpan& span : order) {
    const auto from = values.begin() + static_cast<ptrdiff_t>(span.first);
    result.insert(result.end(), from, from + static_cast<ptrdiff_t>(span.count));
  }
  return result;
}

class LayerBinder {
 public:
  LayerBinder(Binder& binder, const ModelSpec& spec, const TensorNames& names, size_t layer)
      : binder_(binder), spec_(spec), names_(names), layer_(layer) {}

  LayerWeights bind() {
    norm(names_.attention_norm, weights_.attention_norm, weights_.attention_norm_bias);
    qkv();
    weights_.attention_output =
        binder_.matrix(name(names_.attention_output), spec_.width, spec_.attention.query_width());
    if (spec_.bias.attention_output)
      weights_.attention_output_bias = bias(names_.attention_output, spec_.width);
    norm(names_.ffn_norm, weights_.ffn_norm, weights_.ffn_norm_bias);
    if (spec_.experts) {
      experts();
    } else {
      ffn();
    }
    return std::move(weights_);
  }

 private:
  std::string name(std::string_view pattern, size_t expert = 0) const {
    return tensor_name(pattern, layer_, expert);
  }
  std::vector<float> bias(std::string_view weight, size_t values) {
    return binder_.vector(bias_name(name(weight)), values);
  }
  void norm(std::string_view pattern, std::vector<float>& weight, std::vector<float>& bias_values) {
    weight = binder_.vector(name(pattern), spec_.width);
    if (spec_.norm == Norm::kLayer) bias_values = bias(pattern, spec_.width);
  }
  void qkv() {
    const AttentionSpec& attention = spec_.attention;
    if (spec_.grouped_qkv) {
      const std::vector<RowSpan> order = grouped_rows(attention);
      weights_.qkv = binder_.matrix_in_order(name(names_.qkv), order, spec_.width);
      if (spec_.bias.qkv)
        weights_.qkv_bias = in_order(bias(names_.qkv, attention.qkv_width()), order);
      return;
    }
    const size_t interleaved = spec_.interleaved_rotation ? attention.head_dim : 0;
    std::vector<MatrixPart> parts = {{name(names_.query), attention.query_width(), interleaved},
                                     {name(names_.key), attention.kv_width(), interleaved},
                                     {name(names_.value), attention.kv_width(), 0}};
    weights_.qkv = binder_.matrix(name(names_.qkv), parts, spec_.width);
    if (!spec_.bias.qkv) return;
    for (MatrixPart& part : parts) part.name = bias_name(part.name);
    weights_.qkv_bias = binder_.vector(bias_name(name(names_.qkv)), parts);
  }
  void ffn() {
    const size_t neurons = spec_.ffn_width;
    if (spec_.gating == Gating::kGegelu) {
      weights_.gate_up = binder_.matrix(name(names_.gate_up), 2 * neurons, spec_.width);
    } else {
      weights_.gate_up = binder_.matrix(
          name(names_.gate_up), {{name(names_.gate), neurons, 0}, {name(names_.up), neurons, 0}},
          spec_.width);
    }
    weights_.down = binder_.matrix(name(names_.down), spec_.width, neurons);
    if (!spec_.bias.ffn) return;
    weights_.gate_up_bias = bias(names_.gate_up, 2 * neurons);
    weights_.down_bias = bias(names_.down, spec_.width);
  }
  void experts() {
    weights_.router = binder_.matrix(name(names_.router), spec_.experts->count, spec_.width);
    weights_.router.keeps = Keeps::kFormat;
    const auto gates = each_expert(names_.expert_gate, spec_.ffn_width, spec_.width);
    const auto ups = each_expert(names_.expert_up, spec_.ffn_width, spec_.width);
    auto downs = each_expert(names_.expert_down, spec_.width, spec_.ffn_width);
    for (size_t e = 0; e < std::min({gates.size(), ups.size(), downs.size()}); ++e) {
      Matrix gate_up{.rows = 2UL * spec_.ffn_width, .cols = spec_.width, .blocks = gates[e].blocks};
      gate_up.blocks.insert(gate_up.blocks.end(), ups[e].blocks.begin(), ups[e].blocks.end());
      weights_.experts.push_back({std::move(gate_up), std::move(downs[e])});
    }
  }
  // One matrix for each expert; fewer, with a problem noted, where the file lacks them.
  std::vector<Matrix> each_expert(std::string_view pattern, size_t rows, size_t cols) {
    const size_t count = spec_.experts->count;
    if (pattern.find("{e}") == std::string_view::npos)
      return binder_.stacked(name(pattern), count, rows, cols);
    std::vector<Matrix> matrices;
    // A configuration may state more experts than the file could hold: one missing name is enough.
    bool found = true;
    for (size_t e = 0; e < count && found; ++e) {
      const std::string expert = name(pattern, e);
      found = binder_.has(expert);
      matrices.push_back(binder_.matrix(expert, rows, cols));
    }
    return matrices;
  }

  Binder& binder_;
  const ModelSpec& spec_;
  const TensorNames& names_;
  size_t layer_;
  LayerWeights weights_;
};

}  // namespace

std::string tensor_name(std::string_view pattern, size_t layer, size_t expert) {
  std::string name(pattern);
  replace(name, "{i}", layer);
  replace(name, "{e}", expert);
  return name;
}

std::string bias_name(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  weight.remove_suffix(std::min(weight.size(), kWeight.size()));
  return std::string(weight) + ".bias";
}

std::vector<RowSpan> grouped_rows(const AttentionSpec& attention) {
  const size_t dim = attention.head_dim;
  const size_t queries = attention.group() * dim;
  const size_t stride = queries + 2 * dim;
  std::vector<RowSpan> order;
  for (const RowSpan part :
       {RowSpan{0, queries}, RowSpan{queries, dim}, RowSpan{queries + dim, dim}}) {
    for (size_t g = 0; g < attention.kv_heads; ++g) {
      order.push_back({g * stride + part.first, part.count});
    }
  }
  return order;
}

Result<ModelWeights> bind_weights(const ModelSpec& spec, const TensorNames& names,
                                  const TensorSet& tensors) {
  Binder binder(tensors);
  ModelWeights weights;
  weights.mappings = tensors.mappings;
  // A configuration may state more layers than the file could hold: stop at what the file has names
  // for.
  const size_t layers = std::min<size_t>(spec.layers, tensors.tensors.size() + 1);

  weights.embedding = binder.matrix(std::string(names.embedding), spec.vocab, spec.width);
  for (size_t i = 0; i < layers; ++i)
    weights.layers.push_back(LayerBinder(binder, spec, names, i).bind());
  const std::string final_norm(names.final_norm);
  weights.final_norm = binder.vector(final_norm, spec.width);
  if (spec.norm == Norm::kLayer)
    weights.final_norm_bias = binder.vector(bias_name(final_norm), spec.width);
  const std::string head(names.head);
  if (spec.tied_head) {
    binder.ignore(head);
    weights.head = weights.embedding;
  } else {
    weights.head = binder.matrix(head, spec.vocab, spec.width);
  }
  if (spec.bias.head) weights.head_bias = binder.vector(bias_name(head), spec.vocab);
  if (spec.vision) {
    weights.vision = bind_vision(*spec.vision, spec.width, tensors.tensors.size(), binder);
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

size_t ModelWeights::vector_values() const {
  size_t total = final_norm.size() + final_norm_bias.size() + head_bias.size() +
                 (vision ? vision->vector_values() : 0);
  for (const LayerWeights& layer : layers) {
    for (const auto* vector : {&layer.attention_norm, &layer.attention_norm_bias, &layer.qkv_bias,
                               &layer.attention_output_bias, &layer.ffn_norm, &layer.ffn_norm_bias,
                               &layer.gate_up_bias, &layer.down_bias}) {
      total += vector->size();
    }
  }
  return total;
}

size_t ModelWeights::bytes(const ModelSpec& spec) const {
  size_t total = vector_values() * sizeof(float);
  const_cast<ModelWeights*>(this)->for_each_matrix(
      spec, [&total](const Matrix& matrix) { total += matrix.bytes(); });
  return total;
}

size_t ModelWeights::mapped_bytes(const ModelSpec& spec) const {
  size_t total = 0;
  const_cast<ModelWeights*>(this)->for_each_matrix(spec, [&total](const Matrix& matrix) {
    for (const RowBlock& block : matrix.blocks) {
      if (block.owner == nullptr) {
        total += block.bytes(matrix.cols);
      }
    }
  });
  return total;
}

size_t ModelWeights::bytes_per_token(const ModelSpec& spec) const {
  const size_t row = embedding.rows > 0 ? embedding.bytes() / embedding.rows : 0;
  size_t resting = (spec.tied_head ? 0 : embedding.bytes()) + (vision ? vision->bytes() : 0);
  for (const LayerWeights& layer : layers) {
    // All experts of a layer are of one size.
    for (size_t e = ExpertsSpec::kPerRow; e < layer.experts.size(); ++e)
      resting += layer.experts[e].gate_up.bytes() + layer.experts[e].down.bytes();
  }
  return bytes(spec) - resting + row;
}

}  // namespace phidias
