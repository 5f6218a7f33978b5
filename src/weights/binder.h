// From the tensors of a checkpoint to the matrices of a model. A binder is asked for every tensor
// that the model needs; it checks names, shapes and formats, remembers what was used, and reports
// every mismatch at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/checkpoint.h"
#include "phidias/status.h"
#include "weights/matrix.h"

namespace phidias {

// One part of a matrix: a tensor of `rows` rows.
struct MatrixPart {
  std::string name;
  size_t rows = 0;
  // Head size where the file stores each head's rows in the order of interleaved rotation (0, half,
  // 1, half + 1, ... of ours): these rows are copied into half-split order. 0: rows are used as
  // they lie.
  size_t interleaved_head = 0;
};

// Consecutive rows of a tensor.
struct RowSpan {
  size_t first = 0;
  size_t count = 0;
};

// Not thread safe. `tensors` must outlive the binder; matrices point into its mappings.
class Binder {
 public:
  explicit Binder(const TensorSet& tensors);

  bool has(std::string_view name) const { return by_name_.contains(std::string(name)); }
  // A vector of n values, decoded to f32. Shape [n] or any shape of n values with one dimension
  // above 1.
  std::vector<float> vector(const std::string& name, size_t n) { return values(name, {n}); }
  // All values of a tensor of this shape, decoded to f32.
  std::vector<float> values(const std::string& name, const std::vector<uint64_t>& shape);
  // [rows, cols] from `parts` where the file has the first of them, else from `fused`, unless that
  // is empty.
  Matrix matrix(const std::string& fused, const std::vector<MatrixPart>& parts, size_t cols);
  Matrix matrix(const std::string& name, size_t rows, size_t cols) {
    return matrix(name, {{name, rows, 0}}, cols);
  }
  // A tensor of this shape as [shape[0], product of the rest], such as a convolution's kernel.
  Matrix flattened(const std::string& name, const std::vector<uint64_t>& shape);
  // The rows `order` of the tensor [rows, cols], one span after another; nothing is copied.
  Matrix matrix_in_order(const std::string& name, const std::vector<RowSpan>& order, size_t cols);
  // Matrices [rows, cols] from one tensor [count, rows, cols].
  std::vector<Matrix> stacked(const std::string& name, size_t count, size_t rows, size_t cols);
  // A vector that belongs to such rows: `parts` one after another, or `fused`.
  std::vector<float> vector(const std::string& fused, const std::vector<MatrixPart>& parts);
  // Accepted where present, and not used.
  void ignore(const std::string& name) { use(name); }
  // Every tensor whose name ends so.
  void ignore_suffix(std::string_view suffix);

  // What was missing or misshapen, and what is in the file without having been asked for. One line
  // each.
  std::vector<std::string> problems() const;
  // OK, or kCorrupt with all problems in the message.
  Status finish() const;

 private:
  const TensorEntry* use(const std::string& name);
  const TensorEntry* find(const std::string& name, const std::vector<uint64_t>& shape);
  // The rows of `part`, which begin at row `first` of the tensor.
  RowBlock rows_of(const TensorEntry& entry, size_t first, const MatrixPart& part,
                   size_t cols) const;
  std::string where(const TensorEntry& entry) const;

  const TensorSet* tensors_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<bool> used_;
  std::vector<bool> used_ignored_;  // the same of tensors_->ignored
  std::vector<std::string> problems_;
};

}  // namespace phidias
