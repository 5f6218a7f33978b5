#include "phidias/patching.h"

#include <algorithm>

#include "api/names.h"
#include "base/invalid.h"
#include "base/try.h"
#include "phidias/trace.h"

namespace phidias {
namespace {

constexpr NameTable<SweepAxis, 3> kAxes{{{"positions", SweepAxis::kPositions},
                                         {"heads", SweepAxis::kHeads},
                                         {"layers", SweepAxis::kLayers}}};
constexpr NameTable<Ablation, 2> kAblations{{{"zero", Ablation::kZero}, {"mean", Ablation::kMean}}};

size_t axis_of(ValueId value, std::string_view name) {
  const auto axes = axes_of(info_of(value).layout);
  return static_cast<size_t>(std::find(axes.begin(), axes.end(), name) - axes.begin());
}
size_t head_axis(ValueId value) {
  return std::min(axis_of(value, "num_heads"), axis_of(value, "num_kv_heads"));
}

Status check(ValueId value, const SweepOptions& options) {
  const ValueInfo& info = info_of(value);
  const size_t axes = axes_of(info.layout).size();
  if (info.module == Module::kModel || axes < 3 || axis_of(value, "seq") == axes || !info.writable)
    return invalid("a sweep takes a writable value of a layer with a row for each position",
                   std::string(info.name));
  if (options.axis == SweepAxis::kHeads && head_axis(value) >= axes)
    return invalid("has no heads; sweep over positions or layers", std::string(info.name));
  if (options.window == 0) return invalid("must be at least 1", "window");
  return {};
}

// One index of an axis.
Tensor slice(const Tensor& tensor, size_t axis, size_t index) {
  Tensor part{TensorType::kF32, tensor.shape, {}, {}};
  part.shape[axis] = 1;
  uint64_t outer = 1;
  uint64_t inner = 1;
  for (size_t a = 0; a < axis; ++a) outer *= tensor.shape[a];
  for (size_t a = axis + 1; a < tensor.shape.size(); ++a) inner *= tensor.shape[a];
  for (uint64_t o = 0; o < outer; ++o) {
    const auto from =
        tensor.floats.begin() + static_cast<ptrdiff_t>((o * tensor.shape[axis] + index) * inner);
    part.floats.insert(part.floats.end(), from, from + static_cast<ptrdiff_t>(inner));
  }
  return part;
}

Tensor mean_over(const Tensor& tensor, size_t axis) {
  std::vector<double> sum;
  Tensor mean;
  for (size_t i = 0; i < tensor.shape[axis]; ++i) {
    mean = slice(tensor, axis, i);
    sum.resize(mean.floats.size());
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += static_cast<double>(mean.floats[k]);
  }
  for (size_t k = 0; k < sum.size(); ++k)
    mean.floats[k] = static_cast<float>(sum[k] / static_cast<double>(tensor.shape[axis]));
  return mean;
}

// The edit that puts one column of `source`, a value as a layer of some run has it, into a layer.
// With an extent of 1 along seq the source is spread over all positions.
Edit put(ValueId value, size_t layer, const Tensor& source, SweepAxis axis, size_t column) {
  ValueRef place;
  place.id = value;
  place.layers = {true, static_cast<int32_t>(layer)};
  const size_t seq = axis_of(value, "seq");
  if (axis == SweepAxis::kHeads) {
    place.selection.heads = {static_cast<int32_t>(column)};
    return make_edit(place, EditOp::kSet, Operand(slice(source, head_axis(value), column)));
  }
  if (axis == SweepAxis::kLayers) return make_edit(place, EditOp::kSet, Operand(source));
  place.selection.at = Positions(static_cast<int64_t>(column));
  return make_edit(place, EditOp::kSet,
                   Operand(slice(source, seq, source.shape[seq] == 1 ? 0 : column)));
}

Result<std::vector<Tensor>> values_of(Engine& engine, const std::vector<TokenId>& ids,
                                      ValueId value) {
  Trace trace(engine, ids);
  Read all;
  all.value.id = value;
  all.value.layers = {false, 0};
  trace.read(all);
  PHIDIAS_TRY(Traced traced, trace.run());
  std::vector<Tensor> values;
  for (Traced::Entry& entry : traced.entries) values.push_back(std::move(entry.tensor));
  return values;
}

// The table of all cells; `sources` of each layer.
Result<Sweep> sweep(Engine& engine, const std::vector<TokenId>& ids, ValueId value,
                    std::span<const Tensor> sources, const Metric& metric,
                    const SweepOptions& options) {
  Sweep table;
  table.layers = sources.size();
  table.columns = options.axis == SweepAxis::kPositions ? ids.size()
                  : options.axis == SweepAxis::kHeads   ? sources.front().shape[head_axis(value)]
                                                        : 1;
  std::vector<Edits> cells;
  for (size_t layer = 0; layer < table.layers; ++layer) {
    const size_t first = layer - std::min<size_t>(layer, (options.window - 1) / 2);
    const size_t end = std::min(table.layers, layer + options.window / 2 + 1);
    for (size_t column = 0; column < table.columns; ++column) {
      Edits edits;
      for (size_t l = first; l < end; ++l) edits += put(value, l, sources[l], options.axis, column);
      cells.push_back(std::move(edits));
    }
  }
  VariationOptions variations;
  variations.edits = options.edits;
  variations.progress = options.progress;
  PHIDIAS_TRY(Variations measured, run_variations(engine, ids, cells, metric, variations));
  table.metric = std::move(measured.metric);
  table.base = measured.base;
  return table;
}

}  // namespace

Result<SweepAxis> sweep_axis_from_name(std::string_view name) {
  return by_name(kAxes, name, "sweep");
}
Result<Ablation> ablation_from_name(std::string_view name) {
  return by_name(kAblations, name, "ablate");
}

Result<Sweep> patch_sweep(Engine& engine, const std::vector<TokenId>& clean,
                          const std::vector<TokenId>& corrupt, ValueId value, const Metric& metric,
                          const SweepOptions& options) {
  PHIDIAS_CHECK_OK(check(value, options));
  if (clean.size() != corrupt.size()) {
    return invalid("the texts have " + std::to_string(clean.size()) + " and " +
                       std::to_string(corrupt.size()) + " tokens; patching needs equally many",
                   "corrupt");
  }
  PHIDIAS_TRY(const auto sources, values_of(engine, clean, value));
  PHIDIAS_TRY(const Variations unchanged, run_variations(engine, clean, {}, metric));
  PHIDIAS_TRY(Sweep table, sweep(engine, corrupt, value, sources, metric, options));
  table.clean = unchanged.base;
  return table;
}

Result<Sweep> ablation_sweep(Engine& engine, const std::vector<TokenId>& ids, ValueId value,
                             Ablation ablation, const Metric& metric, const SweepOptions& options) {
  PHIDIAS_CHECK_OK(check(value, options));
  PHIDIAS_TRY(auto sources, values_of(engine, ids, value));
  for (Tensor& source : sources) {
    source = mean_over(source, axis_of(value, "seq"));
    if (ablation == Ablation::kZero) std::fill(source.floats.begin(), source.floats.end(), 0.0F);
  }
  PHIDIAS_TRY(const Variations unchanged, run_variations(engine, ids, {}, metric));
  PHIDIAS_TRY(Sweep table, sweep(engine, ids, value, sources, metric, options));
  table.clean = unchanged.base;
  return table;
}

}  // namespace phidias
