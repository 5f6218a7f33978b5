#include "gradient/linear.h"

#include <algorithm>

#include "kernels/order.h"

namespace phidias {
namespace {

// Columns that are decoded together: a multiple of every format's block.
constexpr size_t kColumns = 256;
// Row stride of a decoded chunk of weights: not a power of two, so that its rows lie in different
// sets of the cache.
constexpr size_t kStride = kColumns + 16;
// Rows of dy that go by before the weights are decoded again; their totals stay in the second-level
// cache.
constexpr size_t kBlockRows = 192;
constexpr size_t kTotals = kBlockRows * kColumns;
constexpr size_t kScratchFloats = kChunkRows * kStride + 2 * kTotals;

struct Columns {
  size_t begin;
  size_t count;
};

void multiply(const KernelTable& kernels, const Matrix& weights, const Columns& columns,
              const float* dy, size_t dy_stride, size_t rows, float* dx, size_t dx_stride,
              float* scratch) {
  double* totals = reinterpret_cast<double*>(scratch);
  float* decoded = scratch + 2 * kTotals;
  std::fill_n(totals, rows * kColumns, 0.0);
  for (size_t out = 0; out < weights.rows; out += kChunkRows) {
    TransposedArgs args;
    args.outs = std::min(kChunkRows, weights.rows - out);
    for (size_t o = 0; o < args.outs; ++o) {
      decode_columns(weights, out + o, columns.begin, columns.count, decoded + o * kStride);
    }
    args.weights = decoded;
    args.weight_stride = kStride;
    args.cols = columns.count;
    args.x = dy + out;
    args.row_stride = dy_stride;
    args.rows = rows;
    args.totals = totals;
    args.total_stride = kColumns;
    kernels.add_transposed(args);
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns.count; ++c) {
      dx[r * dx_stride + columns.begin + c] = static_cast<float>(totals[r * kColumns + c]);
    }
  }
}

}  // namespace

void decode_columns(const Matrix& weights, size_t row, size_t begin, size_t count, float* out) {
  for (const RowBlock& block : weights.blocks) {
    if (row < block.rows) {
      const FormatRow& format = format_row(block.format);
      format.decode_tile_row(
          format.tile_of(block.data, row, weights.cols) + format.tile_bytes(begin),
          row % format.tile_rows, out, count);
      return;
    }
    row -= block.rows;
  }
}

void linear_transposed(RunContext& context, const Matrix& weights, const float* dy,
                       size_t dy_stride, size_t rows, float* dx, size_t dx_stride) {
  context.reserve_scratch(kScratchFloats);
  context.threads->run(weights.cols, kColumns, [&](size_t begin, size_t end, size_t thread) {
    for (size_t column = begin; column < end; column += kColumns) {
      const Columns columns = {column, std::min(kColumns, end - column)};
      for (size_t row = 0; row < rows; row += kBlockRows) {
        multiply(*context.kernels, weights, columns, dy + row * dy_stride, dy_stride,
                 std::min(kBlockRows, rows - row), dx + row * dx_stride, dx_stride,
                 context.scratch[thread].data());
      }
    }
  });
}

}  // namespace phidias
