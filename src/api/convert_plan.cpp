#include "api/convert_plan.h"

#include <algorithm>
#include <charconv>
#include <new>

#include "api/calibration.h"
#include "base/mapped_file.h"
#include "base/memory.h"
#include "base/try.h"
#include "model/registry.h"
#include "weights/convert.h"

namespace phidias {
namespace {

constexpr size_t kPieceBytes = 16U << 20;  // of converted rows at a time

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
    if (fused) {
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
    } else {
      parts(layer.gate_up, i,
            {{names_.gate, spec.ffn_width, TensorRole::kGateUp, 0},
             {names_.up, spec.ffn_width, TensorRole::kGateUp, 0}});
    }
    matrix(names_.down, layer.down, TensorRole::kDown, i);
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

// Roles by the part of a GGUF name behind "blk.N.".
struct NamedRole {
  std::string_view name;
  TensorRole role;
};
constexpr NamedRole kGgufRoles[] = {
    {"token_embd.weight", TensorRole::kEmbedding},
    {"output.weight", TensorRole::kHead},
    {"attn_qkv.weight", TensorRole::kQkv},
    {"attn_q.weight", TensorRole::kQueryKey},
    {"attn_k.weight", TensorRole::kQueryKey},
    {"attn_v.weight", TensorRole::kValue},
    {"attn_output.weight", TensorRole::kAttentionOutput},
    {"ffn_up.weight", TensorRole::kGateUp},
    {"ffn_gate.weight", TensorRole::kGateUp},
    {"ffn_down.weight", TensorRole::kDown},
    {"ffn_up_exps.weight", TensorRole::kGateUp},
    {"ffn_gate_exps.weight", TensorRole::kGateUp},
    {"ffn_down_exps.weight", TensorRole::kDown},
};

// "blk.12.ffn_up.weight" is layer 12's "ffn_up.weight".
std::pair<size_t, std::string_view> layer_and_part(std::string_view name) {
  constexpr std::string_view kLayer = "blk.";
  if (!name.starts_with(kLayer)) return {0, name};
  name.remove_prefix(kLayer.size());
  size_t layer = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), layer);
  name.remove_prefix(static_cast<size_t>(read.ptr - name.data()));
  if (name.starts_with('.')) name.remove_prefix(1);
  return {layer, name};
}

// Row `row` in the order of interleaved rotation: which row of ours stands there.
size_t interleaved_row(size_t row, size_t head_dim) {
  const size_t within = row % head_dim;
  return row - within + within / 2 + (within % 2) * (head_dim / 2);
}

// Empty where nothing is known of the tensor. Columns that were silent in the text still count a
// little: in another text they may speak.
Result<std::vector<float>> weights_of_columns(const Importance* importance,
                                              const PlannedTensor& tensor) {
  constexpr double kLeast = 1e-3;  // of the average
  if (importance == nullptr || tensor.role == TensorRole::kOther) return std::vector<float>();
  const auto at = importance->mean_squares.find(tensor.name);
  if (at == importance->mean_squares.end()) return std::vector<float>();
  std::vector<float> weights = at->second;
  if (weights.size() != tensor.rows.cols) {
    return Error{Code::kInvalidArgument,
                 "has " + std::to_string(tensor.rows.cols) +
                     " columns, but the importance matrix is of a model with " +
                     std::to_string(weights.size()),
                 {{}, {}, tensor.name}};
  }
  double average = 0;
  for (const float weight : weights)
    average += static_cast<double>(weight) / static_cast<double>(weights.size());
  for (float& weight : weights) weight += static_cast<float>(kLeast * average);
  return weights;
}

bool as_it_lies(const PlannedTensor& tensor) {
  const auto& blocks = tensor.rows.blocks;
  const size_t tile_rows = format_row(tensor.format).tile_rows;
  return tensor.interleaved_head == 0 &&
         std::all_of(blocks.begin(), blocks.end(), [&](const RowBlock& block) {
           // A tile that is not full can stand only at the end.
           return block.format == tensor.format &&
                  (block.rows % tile_rows == 0 || &block == &blocks.back());
         });
}

}  // namespace

Result<ConversionPlan> plan_gguf(const ModelSpec& spec, const ModelWeights& weights) {
  return plan_dense(spec, weights, kGgufNames, true);
}

Result<ConversionPlan> plan_folder(const ModelSpec& spec, const ModelWeights& weights) {
  return plan_dense(spec, weights, kHuggingFaceNames, false);
}

ConversionPlan plan_copy(const GgufFile& file) {
  ConversionPlan plan;
  const bool tied = std::none_of(file.tensors.begin(), file.tensors.end(),
                                 [](const auto& tensor) { return tensor.name == "output.weight"; });
  for (const TensorEntry& entry : file.tensors) {
    PlannedTensor tensor;
    tensor.name = entry.name;
    tensor.shape = entry.shape;
    tensor.format = entry.format;
    tensor.rows = {.rows = 1, .cols = entry.shape.empty() ? 1 : entry.shape.back(), .blocks = {}};
    for (size_t i = 0; i + 1 < entry.shape.size(); ++i) tensor.rows.rows *= entry.shape[i];
    tensor.rows.blocks = {{entry.format, entry.data, tensor.rows.rows, nullptr}};
    const auto [layer, part] = layer_and_part(entry.name);
    tensor.layer = layer;
    for (const NamedRole& role : kGgufRoles) {
      if (role.name == part && entry.shape.size() > 1) tensor.role = role.role;
    }
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

Status write_plan(const ConversionPlan& plan, ParallelFor& threads, const Importance* importance,
                  Calibration* calibration,
                  const std::function<bool(const ConversionProgress&)>& progress,
                  const std::function<Status(std::span<const std::byte>)>& sink) {
  ConversionProgress state;
  for (const PlannedTensor& tensor : plan) state.total += tensor.bytes();
  const auto give = [&](std::span<const std::byte> bytes) -> Status {
    PHIDIAS_CHECK_OK(sink(bytes));
    state.done += bytes.size();
    if (progress && !progress(state)) return Error{Code::kCancelled, "was interrupted", {}};
    return {};
  };
  AlignedBuffer<std::byte> piece;
  AlignedBuffer<float> decoded;
  std::vector<float> column_weights;
  std::vector<ErrorFeedback::Workspace> workspaces(threads.threads());
  for (const PlannedTensor& tensor : plan) {
    state.tensor = tensor.name;
    const Matrix& source = tensor.rows;
    const FormatRow& target = format_row(tensor.format);
    const size_t tile_bytes = target.tile_bytes(source.cols);
    if (as_it_lies(tensor)) {
      for (const RowBlock& block : source.blocks) {
        for (size_t at = 0, size = block.bytes(source.cols); at < size; at += kPieceBytes)
          PHIDIAS_CHECK_OK(give({block.data + at, std::min(kPieceBytes, size - at)}));
      }
    } else {
      PHIDIAS_TRY(column_weights, weights_of_columns(importance, tensor));
      const ErrorFeedback* feedback = nullptr;
      if (calibration != nullptr && target.block_values > 1) {
        const auto running = [&](size_t, size_t) { return !progress || progress(state); };
        PHIDIAS_TRY(feedback, calibration->feedback_for(tensor, target.block_values, running));
      }
      const size_t group = feedback == nullptr ? target.tile_rows : ErrorFeedback::kRows;
      const size_t piece_rows = std::max<size_t>(1, kPieceBytes / std::max<size_t>(1, tile_bytes) *
                                                        target.tile_rows / group) *
                                group;
      try {
        piece.ensure(target.matrix_bytes(piece_rows, source.cols));
        decoded.ensure(threads.threads() * group * source.cols);
        for (auto& workspace : workspaces) {
          if (feedback != nullptr) workspace.reserve(source.cols, target.block_values);
        }
      } catch (const std::bad_alloc&) {
        return Error{
            Code::kOutOfMemory, "no memory for rows of this length", {{}, {}, tensor.name}};
      }
      for (size_t first = 0; first < source.rows; first += piece_rows) {
        const size_t count = std::min(piece_rows, source.rows - first);
        threads.run(count, group, [&](size_t begin, size_t end, size_t thread) {
          float* values = decoded.data() + thread * group * source.cols;
          for (size_t row = begin; row < end; row += group) {
            const size_t rows = std::min(group, end - row);
            for (size_t i = 0; i < rows; ++i) {
              const size_t from = tensor.interleaved_head == 0
                                      ? first + row + i
                                      : interleaved_row(first + row + i, tensor.interleaved_head);
              decode_row(source, from, values + i * source.cols);
            }
            std::byte* tiles = piece.data() + row / target.tile_rows * tile_bytes;
            if (feedback != nullptr) {
              feedback->encode(values, rows, target, tiles, calibration->algebra(),
                               workspaces[thread], thread);
            } else {
              target.encode_tile(values, rows,
                                 column_weights.empty() ? nullptr : column_weights.data(), tiles,
                                 source.cols);
            }
          }
        });
        PHIDIAS_CHECK_OK(give({piece.data(), target.matrix_bytes(count, source.cols)}));
      }
    }
    // A vector's memory is no mapping's.
    if (tensor.role == TensorRole::kOther) continue;
    for (const RowBlock& block : source.blocks) {
      if (block.owner == nullptr) release_mapped(block.data, block.bytes(source.cols));
    }
  }
  return {};
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
