#include "weights/binder.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/memory.h"
#include "base/try.h"

namespace phidias {
namespace {

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

size_t product(const std::vector<uint64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
}

// Without dimensions of size 1: [1, n] and [n] are the same vector.
std::vector<uint64_t> squeezed(const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> kept;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(kept),
               [](uint64_t n) { return n != 1; });
  return kept;
}

}  // namespace

Binder::Binder(const TensorSet& tensors)
    : tensors_(&tensors),
      used_(tensors.tensors.size(), false),
      used_ignored_(tensors.ignored.size(), false) {
  for (size_t i = 0; i < tensors.tensors.size(); ++i) by_name_.emplace(tensors.tensors[i].name, i);
}

std::string Binder::where(const TensorEntry& entry) const {
  return entry.file < tensors_->files.size() ? tensors_->files[entry.file] : std::string();
}

const TensorEntry* Binder::use(const std::string& name) {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return nullptr;
  used_[at->second] = true;
  return &tensors_->tensors[at->second];
}

const TensorEntry* Binder::find(const std::string& name, const std::vector<uint64_t>& shape) {
  const TensorEntry* entry = use(name);
  if (entry == nullptr) {
    for (size_t i = 0; i < used_ignored_.size(); ++i) {
      const std::string& other = tensors_->ignored[i];
      if (other.starts_with(name + " (")) {
        used_ignored_[i] = true;
        problems_.push_back("wrong dtype: " + other +
                            ", expected a floating-point or quantized type");
        return nullptr;
      }
    }
    problems_.push_back("missing: " + name + " " + shape_text(shape));
    return nullptr;
  }
  const bool same =
      shape.size() == 1 ? squeezed(entry->shape) == squeezed(shape) : entry->shape == shape;
  if (!same) {
    problems_.push_back("wrong shape: " + name + " is " + shape_text(entry->shape) + " in " +
                        where(*entry) + ", expected " + shape_text(shape));
    return nullptr;
  }
  return entry;
}

std::vector<float> Binder::values(const std::string& name, const std::vector<uint64_t>& shape) {
  const TensorEntry* entry = find(name, shape);
  if (entry == nullptr) return {};
  const FormatRow& format = format_row(entry->format);
  if (format.block_values != 1) {
    problems_.push_back("wrong dtype: " + name + " is " + std::string(format.name) + " in " +
                        where(*entry) + ", expected F32, F16 or BF16");
    return {};
  }
  std::vector<float> values(product(shape));
  format.decode(entry->data, values.data(), values.size());
  return values;
}

Matrix Binder::flattened(const std::string& name, const std::vector<uint64_t>& shape) {
  Matrix matrix{.rows = shape[0], .cols = product(shape) / shape[0], .blocks = {}};
  const TensorEntry* entry = find(name, shape);
  if (entry != nullptr) matrix.blocks = {{entry->format, entry->data, matrix.rows, nullptr}};
  return matrix;
}

Matrix Binder::matrix(const std::string& fused, const std::vector<MatrixPart>& parts, size_t cols) {
  Matrix matrix{.rows = 0, .cols = cols, .blocks = {}};
  for (const MatrixPart& part : parts) matrix.rows += part.rows;
  if (!fused.empty() && !has(parts.front().name)) {
    if (const TensorEntry* entry = find(fused, {matrix.rows, cols})) {
      // The fused tensor is as many blocks as it has parts, so that each can be permuted on its
      // own.
      size_t first = 0;
      for (const MatrixPart& part : parts) {
        matrix.blocks.push_back(rows_of(*entry, first, part, cols));
        first += part.rows;
      }
      const bool as_it_lies = std::all_of(parts.begin(), parts.end(), [](const MatrixPart& part) {
        return part.interleaved_head == 0;
      });
      if (as_it_lies) matrix.blocks = {{entry->format, entry->data, matrix.rows, nullptr}};
    }
    return matrix;
  }
  for (const MatrixPart& part : parts) {
    if (const TensorEntry* entry = find(part.name, {part.rows, cols})) {
      matrix.blocks.push_back(rows_of(*entry, 0, part, cols));
    }
  }
  return matrix;
}

Matrix Binder::matrix_in_order(const std::string& name, const std::vector<RowSpan>& order,
                               size_t cols) {
  Matrix matrix{.rows = 0, .cols = cols, .blocks = {}};
  std::vector<RowSpan> spans;  // neighbours joined
  for (const RowSpan& span : order) {
    matrix.rows += span.count;
    if (!spans.empty() && span.first == spans.back().first + spans.back().count) {
      spans.back().count += span.count;
    } else {
      spans.push_back(span);
    }
  }
  const TensorEntry* entry = find(name, {matrix.rows, cols});
  if (entry == nullptr) return matrix;
  for (const RowSpan& span : spans)
    matrix.blocks.push_back(rows_of(*entry, span.first, {{}, span.count, 0}, cols));
  return matrix;
}

std::vector<Matrix> Binder::stacked(const std::string& name, size_t count, size_t rows,
                                    size_t cols) {
  std::vector<Matrix> matrices;
  const TensorEntry* entry = find(name, {count, rows, cols});
  if (entry == nullptr) return matrices;
  for (size_t i = 0; i < count; ++i) {
    matrices.push_back(
        {.rows = rows, .cols = cols, .blocks = {rows_of(*entry, i * rows, {{}, rows, 0}, cols)}});
  }
  return matrices;
}

std::vector<float> Binder::vector(const std::string& fused, const std::vector<MatrixPart>& parts) {
  if (!has(parts.front().name)) {
    size_t rows = 0;
    for (const MatrixPart& part : parts) rows += part.rows;
    return vector(fused, rows);
  }
  std::vector<float> all;
  for (const MatrixPart& part : parts) {
    const std::vector<float> values = vector(part.name, part.rows);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

RowBlock Binder::rows_of(const TensorEntry& entry, size_t first, const MatrixPart& part,
                         size_t cols) const {
  const FormatRow& format = format_row(entry.format);
  if (part.interleaved_head == 0 && first % format.tile_rows == 0) {
    return {entry.format, format.tile_of(entry.data, first, cols), part.rows, nullptr};
  }
  const size_t bytes = format.matrix_bytes(part.rows, cols);
  auto copy = std::make_shared<AlignedBuffer<std::byte>>(bytes);
  std::memset(copy->data(), 0, bytes);  // rows that only fill up a tile are copied from nowhere
  const size_t half = part.interleaved_head / 2;
  for (size_t row = 0; row < part.rows; ++row) {
    size_t source = first + row;
    if (half > 0) {
      const size_t within = row % part.interleaved_head;
      source += (within < half ? 2 * within : 2 * (within - half) + 1) - within;
    }
    const size_t tile = row / format.tile_rows * format.tile_bytes(cols);
    format.copy_tile_row(format.tile_of(entry.data, source, cols), source % format.tile_rows,
                         copy->data() + tile, row % format.tile_rows, cols);
  }
  const std::byte* data = copy->data();
  return {entry.format, data, part.rows, std::move(copy)};
}

void Binder::ignore_suffix(std::string_view suffix) {
  for (size_t i = 0; i < used_.size(); ++i) {
    if (tensors_->tensors[i].name.ends_with(suffix)) used_[i] = true;
  }
  for (size_t i = 0; i < used_ignored_.size(); ++i) {
    const std::string& other = tensors_->ignored[i];
    if (other.substr(0, other.rfind(" (")).ends_with(suffix)) used_ignored_[i] = true;
  }
}

std::vector<std::string> Binder::problems() const {
  std::vector<std::string> all = problems_;
  for (size_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) continue;
    const TensorEntry& entry = tensors_->tensors[i];
    all.push_back("unexpected: " + entry.name + " " + shape_text(entry.shape) + " in " +
                  where(entry));
  }
  for (size_t i = 0; i < used_ignored_.size(); ++i) {
    if (!used_ignored_[i]) all.push_back("unexpected: " + tensors_->ignored[i]);
  }
  return all;
}

Status Binder::finish() const {
  const std::vector<std::string> all = problems();
  if (all.empty()) return {};
  std::string message = "the tensors do not match the model's configuration (" +
                        std::to_string(all.size()) + (all.size() == 1 ? " problem)" : " problems)");
  for (const std::string& problem : all) message += "\n  " + problem;
  return Error{Code::kCorrupt,
               std::move(message),
               {tensors_->files.empty() ? "" : tensors_->files.front(), {}, {}}};
}

}  // namespace phidias
