// A weight matrix as it lies: row blocks, each with its own format and place. A fused projection
// read from separate tensors is one matrix of several blocks; nothing is copied to join them.
#pragma once

#include <cstddef>
#include <cstdint>
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

// What conversions leave of a sensitive matrix.
enum class Keeps : uint8_t {
  kNothing,
  kEightBits,  // of each value, at least
  kFormat,     // it is left as it is
};
// `wanted`, or 8 bits where that has fewer.
inline Format with_eight_bits(Format wanted) {
  return format_row(wanted).bits_per_value() < 8 ? Format::kQ8_0 : wanted;
}

// y = W x with W [rows, cols]. Immutable once bound; the files it points into are kept by
// ModelWeights.
struct Matrix {
  size_t rows = 0;
  size_t cols = 0;
  std::vector<RowBlock> blocks;
  Keeps keeps = Keeps::kNothing;

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
