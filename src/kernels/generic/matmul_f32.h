// matmul_f32 of every format over a vector type: tiles of V::kLeftRows weight rows by up to
// V::kRightRows activation rows.
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/table.h"

namespace phidias::generic {

// Weight rows that are decoded together, one chunk of columns at a time: 16 KiB, which stay in the
// first-level cache while the activation rows go by.
inline constexpr size_t kPanelRows = 8;
// A block of activation rows times a group of weight rows is worked off chunk by chunk of columns:
// the chunk of the block (384 KiB) stays in the second-level cache while the weights of the group
// go by, and weights come from memory once a block.
inline constexpr size_t kBlockRows = 192;
inline constexpr size_t kGroupRows = 64;
static_assert(kBlockRows * kGroupRows * sizeof(double) <= kScratchTotalsBytes);

// Adds the sums of a chunk to those of the chunks before it.
template <class V, size_t kCount>
[[gnu::always_inline]] inline void add_to_totals(const float* sums, double* totals) {
  size_t i = 0;
  for (; i + kDoubleLanes <= kCount; i += kDoubleLanes) {
    V::store_f64(totals + i, V::add(V::load_f64(totals + i), V::widen(sums + i)));
  }
  for (; i < kCount; ++i) totals[i] += static_cast<double>(sums[i]);
}

// One chunk of columns of kLeft weight rows with kRight activation rows. totals [kLeft][kRight]
template <class V, class Rows, size_t kLeft, size_t kRight>
[[gnu::always_inline]] inline void add_tile(const std::byte* weights, size_t row_bytes,
                                            const float* x, size_t x_stride, size_t columns,
                                            size_t offset, double* totals) {
  float sums[kLeft * kRight];
  dot_chunk<V, Rows, kLeft, kRight>(weights, row_bytes, offset, x, x_stride, columns, sums);
  add_to_totals<V, kLeft * kRight>(sums, totals);
}

// A chunk of `outs` weight rows with a tile of kRight activation rows. totals [outs][kRight]
template <class V, class Rows, size_t kRight>
void add_tiles(const std::byte* weights, size_t row_bytes, size_t offset, size_t outs,
               const float* x, size_t x_stride, size_t columns, double* totals) {
  size_t o = 0;
  for (; o + V::kLeftRows <= outs; o += V::kLeftRows) {
    add_tile<V, Rows, V::kLeftRows, kRight>(weights + o * row_bytes, row_bytes, x, x_stride,
                                            columns, offset, totals + o * kRight);
  }
  for (; o < outs; ++o) {
    add_tile<V, Rows, 1, kRight>(weights + o * row_bytes, row_bytes, x, x_stride, columns, offset,
                                 totals + o * kRight);
  }
}

// A block of activation rows times a group of weight rows.
struct Block {
  size_t first_row;
  size_t rows;
  size_t first_out;
  size_t outs;
};

// One chunk of columns of at most kPanelRows weight rows, `out` of the block onwards, with all its
// activation rows. totals: for each tile of activation rows [kPanelRows][rows of the tile].
template <class V, class Rows, bool kDirect>
void multiply_panel(const MatmulArgs& args, const Block& block, const std::byte* weights,
                    size_t row_bytes, size_t outs, size_t begin, size_t columns, double* totals) {
  for (size_t r = 0; r < block.rows; r += V::kRightRows) {
    const size_t tile_rows = block.rows - r < V::kRightRows ? block.rows - r : V::kRightRows;
    const float* x = args.x + (block.first_row + r) * args.x_stride + begin;
    with_constant<V::kRightRows>(tile_rows, [&](auto right) {
      add_tiles<V, Rows, right.kValue>(weights, row_bytes, kDirect ? begin : 0, outs, x,
                                       args.x_stride, columns, totals + r * kPanelRows);
    });
  }
}

// Row by row, so that neighbours are written together: rows lie far apart.
template <class V>
void store_block(const MatmulArgs& args, const Block& block, const double* totals) {
  for (size_t r = 0; r < block.rows; ++r) {
    const size_t tile = r / V::kRightRows * V::kRightRows;
    const size_t tile_rows = block.rows - tile < V::kRightRows ? block.rows - tile : V::kRightRows;
    const double* of_row = totals + tile * kPanelRows + (r - tile);
    float* y = args.y + (block.first_row + r) * args.y_stride + block.first_out;
    for (size_t first = 0; first < block.outs; first += kPanelRows) {
      const size_t outs = block.outs - first < kPanelRows ? block.outs - first : kPanelRows;
      for (size_t o = 0; o < outs; ++o) y[first + o] = static_cast<float>(of_row[o * tile_rows]);
      of_row += block.rows * kPanelRows;
    }
  }
}

// Rows reads the weights as they are stored; decode(args, out, begin, columns, floats) widens those
// of row `out`.
template <class V, class Rows, bool kDirect, class Decode>
void multiply_block(const MatmulArgs& args, const Block& block, Decode decode) {
  double* totals = reinterpret_cast<double*>(args.scratch);
  float* decoded = args.scratch + kScratchTotalsBytes / sizeof(float);
  const size_t panel_totals = block.rows * kPanelRows;
  const size_t panels = (block.outs + kPanelRows - 1) / kPanelRows;
  for (size_t i = 0; i < panels * panel_totals; ++i) totals[i] = 0;
  for (size_t begin = 0; begin < args.cols; begin += kChunkColumns) {
    const size_t columns = args.cols - begin < kChunkColumns ? args.cols - begin : kChunkColumns;
    for (size_t panel = 0; panel < panels; ++panel) {
      const size_t first = panel * kPanelRows;
      const size_t outs = block.outs - first < kPanelRows ? block.outs - first : kPanelRows;
      double* of_panel = totals + panel * panel_totals;
      if constexpr (kDirect) {
        const std::byte* weights = args.weights + (block.first_out + first) * args.row_bytes;
        multiply_panel<V, Rows, true>(args, block, weights, args.row_bytes, outs, begin, columns,
                                      of_panel);
      } else {
        for (size_t o = 0; o < outs; ++o) {
          decode(args, block.first_out + first + o, begin, columns, decoded + o * kChunkColumns);
        }
        multiply_panel<V, typename V::F32Rows, false>(
            args, block, reinterpret_cast<const std::byte*>(decoded), kChunkColumns * sizeof(float),
            outs, begin, columns, of_panel);
      }
    }
  }
  store_block<V>(args, block, totals);
}

// kDirect: with few activation rows nothing is decoded ahead, and the weight rows of a panel are
// read to their end before the next, as memory likes it.
template <class V, class Rows, bool kDirect, class Decode>
void matmul_f32(const MatmulArgs& args, Decode decode) {
  const bool direct = kDirect && args.rows <= V::kRightRows;
  const size_t group = direct ? kPanelRows : kGroupRows;
  for (size_t r = 0; r < args.rows; r += kBlockRows) {
    const size_t rows = args.rows - r < kBlockRows ? args.rows - r : kBlockRows;
    for (size_t o = args.out_begin; o < args.out_end; o += group) {
      const size_t outs = args.out_end - o < group ? args.out_end - o : group;
      const Block block = {r, rows, o, outs};
      if constexpr (kDirect) {
        if (direct) {
          multiply_block<V, Rows, true>(args, block, decode);
          continue;
        }
      }
      multiply_block<V, Rows, false>(args, block, decode);
    }
  }
}

// Formats of single values, as they are stored; Rows reads them.
template <class V, class Rows>
void matmul_plain(const MatmulArgs& args) {
  const auto widen = [](const MatmulArgs& of, size_t out, size_t begin, size_t columns,
                        float* dst) {
    const std::byte* row = of.weights + out * of.row_bytes;
    size_t i = 0;
    for (; i + V::kLanes <= columns; i += V::kLanes) {
      V::store(dst + i, Rows::load(row, begin + i));
    }
    if (i < columns) {
      V::store_partial(dst + i, Rows::load_partial(row, begin + i, columns - i), columns - i);
    }
  };
  matmul_f32<V, Rows, true>(args, widen);
}

}  // namespace phidias::generic
