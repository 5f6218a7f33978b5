#include "api/convert_plan.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "base/try.h"
#include "model/registry.h"
#include "weights/convert.h"

namespace phidias {
namespace {

// Rows [first, first + count) of a matrix.
Matrix slice(const Matrix& matrix, size_t first, size_t count) {
  Matrix part{.rows = count, .cols = matrix.cols, .blocks = {}};
  for (const RowBlock& block : matrix.blocks) {
    const size_t begin = std::min(first, block.rows);
    const size_t taken = std::min(block.rows - begin, count);
    if (taken > 0) {
      part.blocks.push_back(slice(block, begin, taken, matrix.cols));
    }
    first -= begin;
    count -= taken;
  }
  return part;
}

Matrix vector_of(const std::vector<float>& values) {
  return {
      .rows = 1,
      .cols = values.size(),
      .blocks = {{Format::kF32, reinterpret_cast<const std::byte*>(values.data()), 1, nullptr}}};
}

Matrix vector_of(std::vector<float>&& values) = delete;  // it must outlive the plan

// Collects tensors under the names of one kind of file.
class Planner {
 public:
  explicit Planner(const TensorNames& names) : names_(names) {}

  void matrix(std::string_view pattern, const Matrix& matrix, TensorRole role, size_t layer = 0,
              size_t interleaved_head = 0) {
    plan_.push_back({named(pattern, layer),
                     {matrix.rows, matrix.cols},
                     matrix,
                     role,
                     layer,
                     interleaved_head,
                     matrix.blocks.front().format});
  }
  void vector(std::string_view pattern, const std::vector<float>& values, size_t layer = 0) {
    plan_.push_back({named(pattern, layer),
                     {values.size()},
                     vector_of(values),
                     TensorRole::kOther,
                     layer,
                     0,
                     Format::kF32});
  }
  // Of a weight's own name; nothing where the model has none.
  void bias(std::string_view weight, const std::vector<float>& values, size_t layer = 0) {
    if (!values.empty()) vector(bias_name(weight), values, layer);
  }
  // One tensor per part of a fused matrix.
  void parts(const Matrix& fused, size_t layer,
             std::initializer_list<std::tuple<std::string_view, size_t, TensorRole, size_t>> list) {
    size_t first = 0;
    for (const auto& [pattern, rows, role, interleaved] : list) {
      matrix(pattern, slice(fused, first, rows), role, layer, interleaved);
      first += rows;
    }
  }

  void layer(const ModelSpec& spec, const LayerWeights& layer, size_t i, bool fused,
             size_t interleaved) {
    const AttentionSpec& attention = spec.attention;
    norm(names_.attention_norm, layer.attention_norm, layer.attention_norm_bias, i);
    if (spec.grouped_qkv) {
      grouped(names_.qkv, layer, attention, i);
    } else if (fused) {
      matrix(names_.qkv, layer.qkv, TensorRole::kQkv, i);
      bias(names_.qkv, layer.qkv_bias, i);
    } else {
      parts(layer.qkv, i,
            {{names_.query, attention.query_width(), TensorRole::kQueryKey, interleaved},
             {names_.key, attention.kv_width(), TensorRole::kQueryKey, interleaved},
             {names_.value, attention.kv_width(), TensorRole::kValue, 0}});
      bias_parts(layer.qkv_bias, i,
                 {{names_.query, attention.query_width()},
                  {names_.key, attention.kv_width()},
                  {names_.value, attention.kv_width()}});
    }
    matrix(names_.attention_output, layer.attention_output, TensorRole::kAttentionOutput, i);
    bias(names_.attention_output, layer.attention_output_bias, i);
    norm(names_.ffn_norm, layer.ffn_norm, layer.ffn_norm_bias, i);
    if (spec.experts) {
      experts(spec, layer, i);
      return;
    }
    if (fused) {
      matrix(names_.gate_up, layer.gate_up, TensorRole::kGateUp, i);
      bias(names_.gate_up, layer.gate_up_bias, i);
    } else {
      parts(layer.gate_up, i,
            {{names_.gate, spec.ffn_width, TensorRole::kGateUp, 0},
             {names_.up, spec.ffn_width, TensorRole::kGateUp, 0}});
    }
    matrix(names_.down, layer.down, TensorRole::kDown, i);
    bias(names_.down, layer.down_bias, i);
  }

  void norm(std::string_view pattern, const std::vector<float>& weight,
            const std::vector<float>& bias_values, size_t layer = 0) {
    vector(pattern, weight, layer);
    bias(pattern, bias_values, layer);
  }

  ConversionPlan take() { return std::move(plan_); }

 private:
  static std::string named(std::string_view pattern, size_t layer) {
    return tensor_name(pattern, layer);
  }
  void bias_parts(const std::vector<float>& values, size_t layer,
                  std::initializer_list<std::pair<std::string_view, size_t>> list) {
    if (values.empty()) return;
    size_t first = 0;
    for (const auto& [weight, count] : list) {
      const auto* data = reinterpret_cast<const std::byte*>(values.data() + first);
      plan_.push_back({named(bias_name(weight), layer),
                       {count},
                       {.rows = 1, .cols = count, .blocks = {{Format::kF32, data, 1, nullptr}}},
                       TensorRole::kOther,
                       layer,
                       0,
                       Format::kF32});
      first += count;
    }
  }
  // Queries, keys and values as the published matrix has them: group by group.
  void grouped(std::string_view pattern, const LayerWeights& layer, const AttentionSpec& attention,
               size_t i) {
    const size_t dim = attention.head_dim;
    const size_t queries = attention.group() * dim;
    Matrix stored{.rows = layer.qkv.rows, .cols = layer.qkv.cols, .blocks = {}};
    std::vector<float> biases;
    for (size_t g = 0; g < attention.kv_heads; ++g) {
      const size_t key = attention.query_width() + g * dim;
      for (const RowSpan span :
           {RowSpan{g * queries, queries}, {key, dim}, {key + attention.kv_width(), dim}}) {
        const Matrix rows = slice(layer.qkv, span.first, span.count);
        stored.blocks.insert(stored.blocks.end(), rows.blocks.begin(), rows.blocks.end());
        if (layer.qkv_bias.empty()) continue;
        const auto from = layer.qkv_bias.begin() + static_cast<ptrdiff_t>(span.first);
        biases.insert(biases.end(), from, from + static_cast<ptrdiff_t>(span.count));
      }
    }
    matrix(pattern, stored, TensorRole::kQkv, i);
    if (biases.empty()) return;
    const auto owner = std::make_shared<const std::vector<float>>(std::move(biases));
    vector(bias_name(pattern), *owner, i);
    plan_.back().rows.blocks.front().owner = owner;
  }
  void experts(const ModelSpec& spec, const LayerWeights& layer, size_t i) {
    matrix(names_.router, layer.router, TensorRole::kOther, i);
    plan_.back().format = Format::kF32;
    const size_t neurons = spec.ffn_width;
    const auto of_each = [&](std::string_view pattern, TensorRole role, const auto& part) {
      std::vector<Matrix> matrices;
      for (const ExpertWeights& expert : layer.experts) matrices.push_back(part(expert));
      each_expert(pattern, role, i, matrices);
    };
    of_each(names_.expert_gate, TensorRole::kGateUp,
            [&](const ExpertWeights& expert) { return slice(expert.gate_up, 0, neurons); });
    of_each(names_.expert_up, TensorRole::kGateUp,
            [&](const ExpertWeights& expert) { return slice(expert.gate_up, neurons, neurons); });
    of_each(names_.expert_down, TensorRole::kDown,
            [](const ExpertWeights& expert) { return expert.down; });
  }
  // A tensor for each, or one of all of them.
  void each_expert(std::string_view pattern, TensorRole role, size_t layer,
                   const std::vector<Matrix>& matrices) {
    if (pattern.find("{e}") != std::string_view::npos) {
      for (size_t e = 0; e < matrices.size(); ++e)
        matrix(tensor_name(pattern, layer, e), matrices[e], role, layer);
      return;
    }
    Matrix all{.rows = 0, .cols = matrices.front().cols, .blocks = {}};
    for (const Matrix& one : matrices) {
      all.rows += one.rows;
      all.blocks.insert(all.blocks.end(), one.blocks.begin(), one.blocks.end());
    }
    matrix(pattern, all, role, layer);
    plan_.back().shape = {matrices.size(), matrices.front().rows, all.cols};
  }

  const TensorNames& names_;
  ConversionPlan plan_;
};

Result<ConversionPlan> plan_dense(const ModelSpec& spec, const ModelWeights& weights,
                                  const TensorNames& names, bool gguf) {
  PHIDIAS_TRY(const StoredForm form, stored_form(spec.type));
  Planner planner(names);
  planner.matrix(names.embedding, weights.embedding,
                 spec.tied_head ? TensorRole::kHead : TensorRole::kEmbedding);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    planner.layer(spec, weights.layers[i], i, form.fused,
                  gguf && form.gguf_interleaved ? spec.attention.head_dim : 0);
  }
  planner.norm(names.final_norm, weights.final_norm, weights.final_norm_bias);
  if (!spec.tied_head) planner.matrix(names.head, weights.head, TensorRole::kHead);
  planner.bias(names.head, weights.head_bias);
  return planner.take();
}

struct NamedRole {
  std::string_view TensorNames::*pattern;
  TensorRole role;
};
constexpr NamedRole kRoles[] = {
    {&TensorNames::embedding, TensorRole::kEmbedding},
    {&TensorNames::head, TensorRole::kHead},
    {&TensorNames::qkv, TensorRole::kQkv},
    {&TensorNames::query, TensorRole::kQueryKey},
    {&TensorNames::key, TensorRole::kQueryKey},
    {&TensorNames::value, TensorRole::kValue},
    {&TensorNames::attention_output, TensorRole::kAttentionOutput},
    {&TensorNames::gate_up, TensorRole::kGateUp},
    {&TensorNames::gate, TensorRole::kGateUp},
    {&TensorNames::up, TensorRole::kGateUp},
    {&TensorNames::down, TensorRole::kDown},
    {&TensorNames::expert_gate, TensorRole::kGateUp},
    {&TensorNames::expert_up, TensorRole::kGateUp},
    {&TensorNames::expert_down, TensorRole::kDown},
};

// The layer where `name` is the pattern with numbers in it, 0 for a pattern without a layer.
std::optional<size_t> layer_of(std::string_view pattern, std::string_view name) {
  size_t layer = 0;
  while (!pattern.empty() && !name.empty()) {
    if (pattern.front() != '{') {
      if (pattern.front() != name.front()) return std::nullopt;
      pattern.remove_prefix(1);
      name.remove_prefix(1);
      continue;
    }
    size_t number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    if (read.ec != std::errc()) return std::nullopt;
    name.remove_prefix(static_cast<size_t>(read.ptr - name.data()));
    if (pattern.starts_with("{i}")) layer = number;
    pattern.remove_prefix(std::string_view("{i}").size());
  }
  if (!pattern.empty() || !name.empty()) return std::nullopt;
  return layer;
}

std::pair<TensorRole, size_t> role_and_layer(const TensorNames& names, std::string_view name) {
  if (is_vision_matrix(name)) return {TensorRole::kTower, 0};
  for (const NamedRole& row : kRoles) {
    const std::string_view pattern = names.*row.pattern;
    if (pattern.empty()) continue;
    if (const auto layer = layer_of(pattern, name)) return {row.role, *layer};
  }
  return {TensorRole::kOther, 0};
}

}  // namespace

Result<ConversionPlan> plan_gguf(const ModelSpec& spec, const ModelWeights& weights) {
  if (!has_gguf_layout(spec.type)) return plan_folder(spec, weights);
  return plan_dense(spec, weights, kGgufNames, true);
}

Result<ConversionPlan> plan_folder(const ModelSpec& spec, const ModelWeights& weights) {
  return plan_dense(spec, weights,
                    has_gguf_layout(spec.type) ? kHuggingFaceNames : *spec.tensor_names, false);
}

ConversionPlan plan_copy(std::span<const TensorEntry> tensors, const TensorNames& names) {
  ConversionPlan plan;
  const bool tied = std::none_of(tensors.begin(), tensors.end(), [&](const TensorEntry& tensor) {
    return tensor.name == names.head;
  });
  for (const TensorEntry& entry : tensors) {
    PlannedTensor tensor;
    tensor.name = entry.name;
    tensor.shape = entry.shape;
    tensor.format = entry.format;
    tensor.rows = {.rows = 1, .cols = entry.shape.empty() ? 1 : entry.shape.back(), .blocks = {}};
    for (size_t i = 0; i + 1 < entry.shape.size(); ++i) tensor.rows.rows *= entry.shape[i];
    tensor.rows.blocks = {{entry.format, entry.data, tensor.rows.rows, nullptr}};
    std::tie(tensor.role, tensor.layer) = role_and_layer(names, entry.name);
    if (tied && tensor.role == TensorRole::kEmbedding) tensor.role = TensorRole::kHead;
    plan.push_back(std::move(tensor));
  }
  return plan;
}

void add_long_rope_factors(ConversionPlan& plan, const ModelSpec& spec) {
  if (!spec.rope.long_rope) return;
  const auto add = [&](const char* name, const std::vector<float>& factors) {
    PlannedTensor tensor;
    tensor.name = name;
    tensor.shape = {factors.size()};
    tensor.rows = vector_of(factors);
    plan.insert(plan.begin(), std::move(tensor));
  };
  add("rope_factors_short.weight", spec.rope.long_rope->short_factors);
  add("rope_factors_long.weight", spec.rope.long_rope->long_factors);
}

void choose_formats(ConversionPlan& plan, const Recipe& recipe, size_t layers) {
  for (PlannedTensor& tensor : plan) {
    tensor.format =
        recipe.choose(tensor.role, tensor.layer, layers, tensor.rows.cols, tensor.format);
  }
}

ConversionReport describe_plan(const ConversionPlan& plan) {
  ConversionReport report;
  for (const PlannedTensor& tensor : plan) {
    report.bytes_before += tensor.rows.bytes();
    report.bytes_after += tensor.bytes();
    report.parameters += tensor.rows.rows * tensor.rows.cols;
    const std::string name(format_row(tensor.format).name);
    auto at = std::find_if(report.types.begin(), report.types.end(),
                           [&](const auto& entry) { return entry.first == name; });
    if (at == report.types.end()) at = report.types.insert(at, {name, 0});
    at->second += tensor.bytes();
  }
  if (report.parameters > 0) {
    report.bits_per_weight =
        8.0 * static_cast<double>(report.bytes_after) / static_cast<double>(report.parameters);
  }
  return report;
}

}  // namespace phidias
