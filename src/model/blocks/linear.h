// Products of activations with a weight matrix of any make-up.
#pragma once

#include <span>

#include "base/memory.h"
#include "model/run_context.h"
#include "weights/matrix.h"

namespace phidias {

// A batch of rows about to be multiplied: f32, and in fast numerics the same rows quantized where
// the matrix asks for it. Buffers grow and are reused from step to step.
class Activations {
 public:
  // Room for [rows, cols]; contents undefined.
  float* resize(size_t rows, size_t cols);
  float* row(size_t r) { return values_.data() + r * cols_; }
  const float* row(size_t r) const { return values_.data() + r * cols_; }
  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  // Quantizes all rows, in parallel. Call after the rows are written and before linear() on a
  // matrix that needs it.
  void quantize(RunContext& context);
  bool quantized() const { return quantized_; }
  QuantizedRows quantized_rows(size_t first = 0) const;  // from row `first` on
  // As quantize(), to bf16.
  void round_bf16(RunContext& context);
  const uint16_t* bf16_rows(size_t first) const { return bf16_.data() + first * cols_; }

 private:
  size_t rows_ = 0;
  size_t cols_ = 0;
  bool quantized_ = false;
  bool rounded_ = false;
  AlignedBuffer<float> values_;
  AlignedBuffer<uint16_t> bf16_;
  mutable AlignedBuffer<int8_t> q_values_;
  mutable AlignedBuffer<float> q_scales_;
  mutable AlignedBuffer<float> q_sums_;
  mutable AlignedBuffer<int8_t> q_second_values_;
  mutable AlignedBuffer<float> q_second_scales_;
  mutable AlignedBuffer<float> q_second_sums_;
};

// y[r, :] = W x[r, :] + bias for every row of x; y has rows of `y_stride` floats. x is quantized
// first where W needs it. Split over weight rows: each output has one owner and one order of
// summation, whatever the threads.
//   bias    one value per row of W, or empty
void linear(RunContext& context, const Matrix& weights, Activations& x, float* y, size_t y_stride,
            std::span<const float> bias = {});

// Rows [first, first + rows) of a batch, and the matrix that they alone are multiplied with.
struct RowGroup {
  const Matrix* weights;
  size_t first;
  size_t rows;
};

// The same for groups of rows with a matrix each, all of one shape. A row's result does not depend
// on the other rows of its group.
void linear_groups(RunContext& context, std::span<const RowGroup> groups, Activations& x, float* y,
                   size_t y_stride);

}  // namespace phidias
