// A weight matrix as it lies: row blocks, each with its own format and place. A fused projection
// read from separate tensors is one matrix of several blocks; nothing is copied to join them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "quant/format.h"

namespace phidias {

// `rows` consecutive rows: whole tiles of the format, of which the last may have rows to spare.
struct RowBlock {
  Format format = Format::kF32;
  const std::byte* data = nullptr;
  size_t rows = 0;
  std::shared_ptr<const void>
      owner;  // keeps a converted copy alive; null for memory of a mapped file

  size_t bytes(size_t cols) const { return format_row(format).matrix_bytes(rows, cols); }
};

// y = W x with W [rows, cols]. Immutable once bound; the files it points into are kept by
// ModelWeights.
struct Matrix {
  size_t rows = 0;
  size_t cols = 0;
  std::vector<RowBlock> blocks;
  bool keeps_format = false;  // small, and sensitive: conversions leave it as it is

  size_t bytes() const {
    size_t total = 0;
    for (const RowBlock& block : blocks) total += block.bytes(cols);
    return total;
  }
};

// Decodes row `row` into out[cols].
inline void decode_row(const Matrix& matrix, size_t row, float* out) {
  for (const RowBlock& block : matrix.blocks) {
    if (row < block.rows) {
      format_row(block.format).decode_row(block.data, row, out, matrix.cols);
      return;
    }
    row -= block.rows;
  }
}

}  // namespace phidias
