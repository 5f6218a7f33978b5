// matmul_f32 of every format over a vector type: tiles of V::kLeftRows weight rows by up to
// V::kRightRows activation rows.
#pragma once

#include <cstring>

#include "kernels/generic/dot.h"
#include "kernels/table.h"

namespace phidias::generic {

// Weight rows that are decoded together, one chunk of columns at a time: 16 KiB, which stay in the
// first-level cache while the activation rows go by.
inline constexpr size_t kPanelRows = 8;
// A block of activation rows times a group of weight rows is worked off chunk by chunk of columns:
// the chunk of the block (192 KiB) stays in the second-level cache while the weights of the group
// go by, and weights come from memory once a block. The block is packed by chunks first: rows of
// wide matrices lie a multiple of pages apart, where a chunk of them shares a few sets of the
// caches.
inline constexpr size_t kBlockRows = 96;
inline constexpr size_t kGroupRows = 64;
static_assert(kBlockRows * kGroupRows * sizeof(double) <= kScratchTotalsBytes);
static_assert(kBlockRows + kPanelRows <= kScratchWeightRows);

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

// A chunk of columns of a block's activation rows.
struct Chunk {
  const float* x;
  size_t x_stride;
  size_t begin;
  size_t columns;
};

// Weights that come next: `bytes` bytes of each of `rows` rows.
struct NextWeights {
  const std::byte* first = nullptr;
  size_t row_bytes = 0;
  size_t rows = 0;
  size_t bytes = 0;
};

// Asks for the share of turn `turn` of `turns`: bit by bit, while others are multiplied.
template <class V>
[[gnu::always_inline]] inline void prefetch(const NextWeights& next, size_t turn, size_t turns) {
  constexpr size_t kLine = 64;
  const size_t lines = (next.bytes + kLine - 1) / kLine;
  const size_t end = (turn + 1) * next.rows * lines / turns;
  for (size_t i = turn * next.rows * lines / turns; i < end; ++i)
    __builtin_prefetch(next.first + i / lines * next.row_bytes + i % lines * kLine);
}

// One chunk of columns of at most kPanelRows weight rows with all activation rows of the block.
// totals: for each tile of activation rows [kPanelRows][rows of the tile].
template <class V, class Rows>
void multiply_panel(const Chunk& chunk, size_t rows, const std::byte* weights, size_t row_bytes,
                    size_t offset, size_t outs, const NextWeights& next, double* totals) {
  const size_t turns = (rows + V::kRightRows - 1) / V::kRightRows;
  for (size_t turn = 0; turn < turns; ++turn) {
    const size_t r = turn * V::kRightRows;
    const size_t tile_rows = rows - r < V::kRightRows ? rows - r : V::kRightRows;
    prefetch<V>(next, turn, turns);
    with_constant<V::kRightRows>(tile_rows, [&](auto right) {
      add_tiles<V, Rows, right.kValue>(weights, row_bytes, offset, outs,
                                       chunk.x + r * chunk.x_stride, chunk.x_stride, chunk.columns,
                                       totals + r * kPanelRows);
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

template <class V>
size_t columns_from(const MatmulArgs& args, size_t begin) {
  return args.cols - begin < kChunkColumns ? args.cols - begin : kChunkColumns;
}

// Room for decoded weights, then for the packed block: [chunk][row][columns].
template <class V>
float* decoded_weights(const MatmulArgs& args) {
  return args.scratch + kScratchTotalsBytes / sizeof(float);
}
template <class V>
float* packed_rows(const MatmulArgs& args) {
  return decoded_weights<V>(args) + kPanelRows * kChunkColumns;
}
template <class V>
void pack_rows(const MatmulArgs& args, size_t first_row, size_t rows) {
  float* packed = packed_rows<V>(args);
  for (size_t begin = 0; begin < args.cols; begin += kChunkColumns) {
    const size_t columns = columns_from<V>(args, begin);
    for (size_t r = 0; r < rows; ++r, packed += columns) {
      std::memcpy(packed, args.x + (first_row + r) * args.x_stride + begin,
                  columns * sizeof(float));
    }
  }
}

// Few activation rows against weights as they are stored, which Rows reads.
template <class V, class Rows>
void multiply_block_direct(const MatmulArgs& args, const Block& block) {
  double* totals = reinterpret_cast<double*>(args.scratch);
  for (size_t i = 0; i < block.rows * kPanelRows; ++i) totals[i] = 0;
  const std::byte* weights = args.weights + block.first_out * args.row_bytes;
  for (size_t begin = 0; begin < args.cols; begin += kChunkColumns) {
    const Chunk chunk = {args.x + block.first_row * args.x_stride + begin, args.x_stride, begin,
                         columns_from<V>(args, begin)};
    multiply_panel<V, Rows>(chunk, block.rows, weights, args.row_bytes, begin, block.outs, {},
                            totals);
  }
  store_block<V>(args, block, totals);
}

// The weights that follow those of panel `panel` in the chunk. row_bytes: of rows of single values;
// 0, and nothing follows, of others.
template <class V>
NextWeights next_weights(const MatmulArgs& args, const Block& block, const Chunk& chunk,
                         size_t panel, size_t row_bytes) {
  const size_t value_bytes = row_bytes / args.cols;
  if ((panel + 1) * kPanelRows < block.outs) {
    const size_t out = block.first_out + (panel + 1) * kPanelRows;
    return {args.weights + out * row_bytes + chunk.begin * value_bytes, row_bytes, kPanelRows,
            chunk.columns * value_bytes};
  }
  const size_t begin = chunk.begin + chunk.columns;
  if (begin >= args.cols) return {};
  return {args.weights + block.first_out * row_bytes + begin * value_bytes, row_bytes, kPanelRows,
          columns_from<V>(args, begin) * value_bytes};
}

// A block of packed rows. decode(args, out, begin, columns, floats) widens weights of row `out`.
template <class V, class Decode>
void multiply_block(const MatmulArgs& args, const Block& block, size_t plain_row_bytes,
                    Decode decode) {
  double* totals = reinterpret_cast<double*>(args.scratch);
  float* decoded = decoded_weights<V>(args);
  const float* x = packed_rows<V>(args);
  const size_t panel_totals = block.rows * kPanelRows;
  const size_t panels = (block.outs + kPanelRows - 1) / kPanelRows;
  for (size_t i = 0; i < panels * panel_totals; ++i) totals[i] = 0;
  for (size_t begin = 0; begin < args.cols; begin += kChunkColumns) {
    const size_t columns = columns_from<V>(args, begin);
    const Chunk chunk = {x + begin * block.rows, columns, begin, columns};
    for (size_t panel = 0; panel < panels; ++panel) {
      const size_t first = panel * kPanelRows;
      const size_t outs = block.outs - first < kPanelRows ? block.outs - first : kPanelRows;
      for (size_t o = 0; o < outs; ++o) {
        decode(args, block.first_out + first + o, begin, columns, decoded + o * kChunkColumns);
      }
      const NextWeights next = next_weights<V>(args, block, chunk, panel, plain_row_bytes);
      multiply_panel<V, typename V::F32Rows>(
          chunk, block.rows, reinterpret_cast<const std::byte*>(decoded),
          kChunkColumns * sizeof(float), 0, outs, next, totals + panel * panel_totals);
    }
  }
  store_block<V>(args, block, totals);
}

// kDirect: with few activation rows nothing is decoded ahead, and the weight rows of a panel are
// read to their end before the next, as memory likes it.
template <class V, class Rows, bool kDirect, class Decode>
void matmul_f32(const MatmulArgs& args, Decode decode) {
  if constexpr (kDirect) {
    if (args.rows <= V::kRightRows) {
      for (size_t o = args.out_begin; o < args.out_end; o += kPanelRows) {
        const size_t outs = args.out_end - o < kPanelRows ? args.out_end - o : kPanelRows;
        multiply_block_direct<V, Rows>(args, {0, args.rows, o, outs});
      }
      return;
    }
  }
  for (size_t r = 0; r < args.rows; r += kBlockRows) {
    const size_t rows = args.rows - r < kBlockRows ? args.rows - r : kBlockRows;
    pack_rows<V>(args, r, rows);
    for (size_t o = args.out_begin; o < args.out_end; o += kGroupRows) {
      const size_t outs = args.out_end - o < kGroupRows ? args.out_end - o : kGroupRows;
      multiply_block<V>(args, {r, rows, o, outs}, kDirect ? args.row_bytes : 0, decode);
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
