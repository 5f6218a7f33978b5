// Products of output gradients with transposed weight matrices of any make-up.
#pragma once

#include <cstddef>

#include "model/run_context.h"
#include "weights/matrix.h"

namespace phidias {

// dx[r, :] = W^T dy[r, :] for `rows` rows of dy at stride dy_stride; dx has rows of `dx_stride`
// floats and overlaps no input. Split over the columns of W: each element has one owner and one
// order of summation (kernels/order.h), whatever the threads.
void linear_transposed(RunContext& context, const Matrix& weights, const float* dy,
                       size_t dy_stride, size_t rows, float* dx, size_t dx_stride);

// The columns [begin, begin + count) of a row as floats; begin and count are multiples of the
// format's block, or reach to the end of the row.
void decode_columns(const Matrix& weights, size_t row, size_t begin, size_t count, float* out);

}  // namespace phidias
