#include "api/dataset_columns.h"

#include <algorithm>
#include <cmath>

#include "base/invalid.h"
#include "base/try.h"
#include "trace/edit_program.h"
#include "trace/value_table.h"

namespace phidias {
namespace {}  // namespace

Result<std::vector<DatasetColumn>> dataset_columns(const ModelSpec& spec,
                                                   const CollectOptions& options) {
  std::vector<DatasetColumn> columns;
  for (const Read& read : options.reads) {
    const ValueInfo& info = info_of(read.value.id);
    const auto axes = axes_of(info.layout);
    const std::string place = read.value.to_string();
    const auto seq = static_cast<size_t>(std::ranges::find(axes, "seq") - axes.begin());
    if (axes.size() < 3 || seq == axes.size() || is_integer(info.id))
      return invalid("has no row for each position", place);
    if (read.moment == Read::Moment::kGradient)
      return invalid("gradients are not collected", place);
    if (read.value.selection != Selection())
      return invalid("whole values are collected; leave the selection out", place);
    if (const auto missing = missing_value(info.id, spec))
      return Error{Code::kUnsupported, *missing, {{}, {}, place}};
    PHIDIAS_TRY(const auto layers, resolve_layers(read.value, spec));
    std::vector<uint64_t> shape = shape_of(info.id, spec, 1);
    DatasetColumn column;
    column.heads_first = seq == 2;
    column.heads = column.heads_first ? shape[1] : 1;
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(seq));
    column.row_shape.assign(shape.begin() + 1, shape.end());
    for (const uint64_t extent : column.row_shape) column.width *= extent;
    for (const size_t layer : layers) {
      column.name = value_name(info.id, layer);
      columns.push_back(column);
    }
  }
  if (columns.empty()) return invalid("nothing is to be collected", "reads");
  return columns;
}

Result<RowStorage> RowStorage::from_name(const std::string& dtype) {
  RowStorage storage;
  if (dtype == "i8") return storage;
  storage.format_ = format_from_name(dtype);
  if (storage.format_ != Format::kF32 && storage.format_ != Format::kF16 &&
      storage.format_ != Format::kBF16)
    return invalid("\"" + dtype + "\" is none of f32, bf16, f16, i8", "dtype");
  return storage;
}

size_t RowStorage::row_bytes(size_t width) const {
  return format_ ? format_row(*format_).row_bytes(width) : width;
}

std::string RowStorage::safetensors() const {
  return format_ ? std::string(format_row(*format_).safetensors) : "I8";
}

void RowStorage::encode(std::span<const float> row, std::byte* to, float& scale) const {
  if (format_) return format_row(*format_).encode(row.data(), to, row.size());
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  scale = largest / 127.0F;
  const float divisor = scale > 0 ? scale : 1.0F;
  for (size_t i = 0; i < row.size(); ++i)
    to[i] = static_cast<std::byte>(static_cast<int8_t>(std::nearbyint(row[i] / divisor)));
}

}  // namespace phidias
