// Quantization that lets later columns make up for the errors of earlier ones: what a product loses
// by rounding is its error times the inputs, and inputs go together.
//
// With H the mean of x x^T over a text, rows are rounded so that e^T H e is small, e the errors of
// a row: blocks of columns from the last to the first, each moved by what the errors behind it ask
// for. This is GPTQ (Frantar et al., 2022) in the form of Babai's nearest plane (with H = L L^T the
// sum is |L^T e|^2, and L^T is solved from its end), with a format's whole blocks in place of
// single columns, so that any format's own search is used as it is.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "quant/format.h"
#include "weights/dense.h"

namespace phidias {

class ErrorFeedback {
 public:
  // Rows that are best handed over together.
  static constexpr size_t kRows = 64;

  //   moments   lower triangle of H [width, width], in any unit
  //   block     columns that are rounded together; divides width
  // Nothing where all inputs were zero. Throws std::bad_alloc.
  static std::optional<ErrorFeedback> create(const AlignedBuffer<float>& moments, size_t width,
                                             size_t block, DenseAlgebra& algebra);

  size_t width() const { return width_; }

  // Of one thread.
  struct Workspace {
    AlignedBuffer<float> errors, targets, block;
    void reserve(size_t width, size_t block_columns);
  };
  // Encodes values [rows, width] into whole tiles of a format of this block, of which the last may
  // be filled up. rows <= kRows.
  void encode(const float* values, size_t rows, const FormatRow& format, std::byte* tiles,
              DenseAlgebra& algebra, Workspace& workspace, size_t thread) const;

 private:
  ErrorFeedback(AlignedBuffer<float> factor, size_t width, size_t block)
      : factor_(std::move(factor)), width_(width), block_(block), importance_(width) {}

  // Below the diagonal blocks and on them L; right of them, for each row of a block, how much of
  // every later column's error it takes over.
  AlignedBuffer<float> factor_;
  size_t width_;
  size_t block_;
  std::vector<float> importance_;  // of each column, once all later ones have made up for it
};

}  // namespace phidias
