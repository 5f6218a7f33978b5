// matmul_f32 of every format over a vector type: tiles of V::kLeftRows weight rows by up to
// V::kRightRows activation rows.
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/table.h"

namespace phidias::generic {

// Activation rows that are multiplied with a decoded panel before the next panel: few enough to
// stay in the second-level cache, enough to pay for decoding a panel again for the next ones.
inline constexpr size_t kBlockFloats = 96 * 1024;
inline constexpr size_t kMostBlockRows = 48;
inline constexpr size_t kPanelRows = 8;

// Adds the products of one chunk of columns to totals[b * kPanelRows + a].
template <class V, class Rows, size_t kLeft, size_t kRight>
void add_tile(const std::byte* weights, size_t row_bytes, const float* x, size_t x_stride,
              size_t begin, size_t end, double* totals) {
  float sums[kLeft * kRight];
  dot_chunk<V, Rows, kLeft, kRight>(weights, row_bytes, x, x_stride, begin, end, sums);
  for (size_t a = 0; a < kLeft; ++a) {
    for (size_t b = 0; b < kRight; ++b) {
      totals[b * kPanelRows + a] += static_cast<double>(sums[a * kRight + b]);
    }
  }
}

// y of `outs` weight rows (at most kPanelRows) and `rows` activation rows (at most kMostBlockRows).
// Chunk by chunk, so that a chunk of the panel stays in the first-level cache for all rows.
template <class V, class Rows>
void multiply_panel(const MatmulArgs& args, const std::byte* weights, size_t row_bytes,
                    size_t first_out, size_t outs, size_t first_row, size_t rows) {
  double totals[kPanelRows * kMostBlockRows];
  for (size_t i = 0; i < rows * kPanelRows; ++i) totals[i] = 0;
  for (size_t begin = 0; begin < args.cols; begin += kChunkColumns) {
    const size_t end = begin + kChunkColumns < args.cols ? begin + kChunkColumns : args.cols;
    for (size_t r = 0; r < rows; r += V::kRightRows) {
      const size_t tile_rows = rows - r < V::kRightRows ? rows - r : V::kRightRows;
      const float* x = args.x + (first_row + r) * args.x_stride;
      with_constant<V::kRightRows>(tile_rows, [&](auto right) {
        size_t o = 0;
        for (; o + V::kLeftRows <= outs; o += V::kLeftRows) {
          add_tile<V, Rows, V::kLeftRows, right.value>(weights + o * row_bytes, row_bytes, x,
                                                       args.x_stride, begin, end,
                                                       totals + r * kPanelRows + o);
        }
        for (; o < outs; ++o) {
          add_tile<V, Rows, 1, right.value>(weights + o * row_bytes, row_bytes, x, args.x_stride,
                                            begin, end, totals + r * kPanelRows + o);
        }
      });
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    float* y = args.y + (first_row + r) * args.y_stride + first_out;
    for (size_t o = 0; o < outs; ++o) y[o] = static_cast<float>(totals[r * kPanelRows + o]);
  }
}

// kDirect: Rows reads the weights as they are stored; with few activation rows nothing is decoded
// ahead. Else, and with many rows, decode(row, floats, cols) fills panels in the scratch.
template <class V, class Rows, bool kDirect, class Decode>
void matmul_f32(const MatmulArgs& args, Decode decode) {
  size_t block = args.cols == 0 ? kMostBlockRows : kBlockFloats / args.cols;
  block = block / V::kRightRows * V::kRightRows;
  if (block > kMostBlockRows) block = kMostBlockRows / V::kRightRows * V::kRightRows;
  if (block < V::kRightRows) block = V::kRightRows;
  const bool direct = kDirect && args.rows <= V::kRightRows;
  const size_t stride = (args.cols + kFloatLanes - 1) / kFloatLanes * kFloatLanes;

  for (size_t r = 0; r < args.rows; r += block) {
    const size_t rows = args.rows - r < block ? args.rows - r : block;
    for (size_t o = args.out_begin; o < args.out_end; o += kPanelRows) {
      const size_t outs = args.out_end - o < kPanelRows ? args.out_end - o : kPanelRows;
      const std::byte* weights = args.weights + o * args.row_bytes;
      if (direct) {
        multiply_panel<V, Rows>(args, weights, args.row_bytes, o, outs, r, rows);
        continue;
      }
      for (size_t i = 0; i < outs; ++i) {
        decode(weights + i * args.row_bytes, args.scratch + i * stride, args.cols);
      }
      multiply_panel<V, typename V::F32Rows>(args, reinterpret_cast<const std::byte*>(args.scratch),
                                             stride * sizeof(float), o, outs, r, rows);
    }
  }
}

}  // namespace phidias::generic
