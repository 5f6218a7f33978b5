// matmul_q8 for several activation rows: weight rows side by side in the lanes of registers.
//
// A panel is one chunk of columns of kOuts weight rows, unpacked once for all activation rows. In
// it, four neighbouring columns of one weight row are a lane of 32 bits: an activation row's four
// values are broadcast against them, and what adds up in a lane is the integer sum of one output.
// All that is at work lies in the first-level cache; an output's chain (order.h) waits in between
// in `chains`, in the second-level cache like the chunk of the activations.
//
// Q is the arithmetic of an instruction set and a format:
//   kOuts      weight rows of a panel
//   kVectors   registers of floats for them
//   kRows      activation rows of a tile
//   kTileRows  weight rows of a tile of the format; a panel begins at a multiple
//   kBias      what the panel's quants are above their meaning; 0 if they are signed
//   kHalves    whether the two halves of a group have codes of their own
//   kMinimum   whether a group has a minimum, or in pairs an offset
//   kPairs     whether two groups share a scale and an offset
//   Floats     a register of floats, with load, store, zero, set, mul, fma
//   park(x)    where registers are few: x waits in memory until it is used again
//   unpack(args, out, outs, group, groups, panel)
//              `groups` groups from `group` on of weight rows [out, out + outs)
//   group_sums<kRows>(panel, group, x, bias_sums, Floats* sums)
//              the exact integer sums of one group as floats: sums [kRows][kVectors];
//              x [kRows] points to each row's chunk, bias_sums [kHalves][kRows]
//   stream(y, chains)   writes kOuts outputs past the caches; y is aligned to a cache line
//   end_streams()       what was streamed is seen by others after what is written next
//   value_sums(values, sums)
//              the sums of a group's 32 values, for kHalves of each 16
#pragma once

#include <cstring>

#include "kernels/generic/dot.h"
#include "kernels/table.h"

namespace phidias::generic {

// Activation rows that go through one panel before the next: enough to pay for unpacking it again
// for the next ones.
inline constexpr size_t kMostRowsOfBlock = 192;
inline constexpr size_t kChunkGroups = kChunkColumns / kQuantGroup;
// Panels of so many weight rows go through a chunk of the activations before its next one: a chunk
// of a block's rows is 96 KiB, where whole rows of a wide matrix would not fit into the
// second-level cache. Few rows do, and memory gives more when each weight row is read to its end.
inline constexpr size_t kOutsOfBlock = 256;
inline constexpr size_t kRowsToChunk = 64;

// So many rows of outputs lie in as many pages, often in the same few sets of the caches, and are
// not read before all of them are written: they go past the caches.
inline constexpr size_t kRowsToStream = 64;
inline constexpr size_t kLine = 64;

template <class Q>
struct Panel {
  static constexpr size_t kOuts = Q::kOuts;
  static constexpr size_t kMinimumGroups = Q::kMinimum ? kChunkGroups : 1;
  static constexpr size_t kCodeGroups = Q::kHalves ? kChunkGroups : 1;

  alignas(64) uint8_t quants[kChunkGroups][kQuantGroup / 4][kOuts][4];
  alignas(64) float scales[kChunkGroups][kOuts];
  alignas(64) float minimums[kMinimumGroups][kOuts];
  alignas(64) int32_t codes[kCodeGroups][2][kOuts];  // in Q's own form
};

// Where the weights of the next panel lie, which are asked for bit by bit while this one is
// multiplied: a panel is unpacked as fast as its weights come.
template <class Q>
struct NextPanel {
  static constexpr size_t kPieces = Q::kOuts / Q::kTileRows;
  static constexpr size_t kParts = kPieces < kChunkGroups ? kChunkGroups / kPieces : 1;

  const std::byte* first = nullptr;  // of the pieces, each of them in another tile
  size_t stride = 0;
  size_t bytes = 0;  // of a piece
  // The tiles of activation rows take turns: too much asked for at once makes the thread wait.
  size_t turns = 1;  // a power of two
  size_t turn = 0;

  // The share of group `group` of this panel, if it is this turn's.
  [[gnu::always_inline]] inline void prefetch(size_t group) const {
    if ((group & (turns - 1)) != turn) return;
    if constexpr (kParts > 1) {
      prefetch_piece(group / kParts, group % kParts * bytes / kParts,
                     (group % kParts + 1) * bytes / kParts);
    } else {
      for (size_t piece = group; piece < kPieces; piece += kChunkGroups)
        prefetch_piece(piece, 0, bytes);
    }
  }
  [[gnu::always_inline]] inline void prefetch_piece(size_t piece, size_t begin, size_t end) const {
    for (size_t at = begin; at < end; at += kLine) __builtin_prefetch(first + piece * stride + at);
  }
};

// What the activation rows of a block bring beside their values.
template <class Q>
struct RowNumbers {
  static constexpr size_t kHalves = Q::kHalves ? 2 : 1;
  static constexpr size_t kFloats = Q::kMinimum ? 2 : 1;

  // A second term of a group.
  struct Second {
    uint32_t row;
    float scale;
    float sum;
    int32_t bias_sums[2];
  };

  size_t groups;
  size_t rows;
  // Of each tile of rows, in the order in which they are used:
  float* scales;       // [groups][kFloats][rows of the tile]: scales, then sums
  int32_t* bias_sums;  // [groups][kHalves][rows of the tile]: -kBias * sum of values
  uint32_t* firsts;    // [groups + 1]: where a group's second terms begin
  Second* seconds;

  // Bytes that the numbers of `rows` rows of `groups` groups may take.
  static constexpr size_t bytes(size_t rows, size_t groups) {
    return rows * groups * (kFloats * sizeof(float) + kHalves * sizeof(int32_t) + sizeof(Second)) +
           (groups + 1) * sizeof(uint32_t);
  }

  RowNumbers(void* memory, size_t row_count, size_t group_count)
      : groups(group_count), rows(row_count), scales(static_cast<float*>(memory)) {
    bias_sums = reinterpret_cast<int32_t*>(scales + rows * groups * kFloats);
    firsts = reinterpret_cast<uint32_t*>(bias_sums + rows * groups * kHalves);
    seconds = reinterpret_cast<Second*>(firsts + groups + 1);
  }

  float* tile_scales(size_t row, size_t tile_rows, size_t group) const {
    return scales + (row * groups + group * tile_rows) * kFloats;
  }
  int32_t* tile_bias_sums(size_t row, size_t tile_rows, size_t group) const {
    return bias_sums + (row * groups + group * tile_rows) * kHalves;
  }

  static void fill_bias(const int8_t* values, size_t stride, int32_t* sums) {
    if constexpr (Q::kBias != 0) {
      int32_t plain[2];
      Q::value_sums(values, plain);
      for (size_t half = 0; half < kHalves; ++half) sums[half * stride] = -Q::kBias * plain[half];
    }
  }

  // Of a tile of rows of q, of which the first is the block's row `row`.
  void gather(const QuantizedRows& q, size_t row, size_t tile_rows) {
    for (size_t i = 0; i < tile_rows; ++i) {
      const QuantizedRows of = q.from(row + i, groups * kQuantGroup);
      float* scale = tile_scales(row, tile_rows, 0) + i;
      int32_t* bias = tile_bias_sums(row, tile_rows, 0) + i;
      for (size_t g = 0; g < groups; ++g) {
        *scale = of.scales[g];
        if constexpr (Q::kPairs) {
          scale[tile_rows] = g % 2 == 0 ? 0 : of.sums[g - 1] + of.sums[g];
        } else if constexpr (Q::kMinimum) {
          scale[tile_rows] = of.sums[g];
        }
        fill_bias(of.values + g * kQuantGroup, tile_rows, bias);
        scale += kFloats * tile_rows;
        bias += kHalves * tile_rows;
      }
    }
  }

  // Second terms of all rows, by group.
  void gather_seconds(const QuantizedRows& q) {
    // Counted, then placed: row by row, as they lie.
    std::memset(firsts, 0, (groups + 1) * sizeof(*firsts));
    for (size_t row = 0; row < rows; ++row) {
      for (size_t g = 0; g < groups; ++g)
        firsts[g] += q.second_scales[row * groups + g] != 0 ? 1 : 0;
    }
    uint32_t count = 0;
    for (size_t g = 0; g <= groups; ++g) {
      const uint32_t of_group = firsts[g];
      firsts[g] = count;
      count += of_group;
    }
    if (count == 0) return;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t g = 0; g < groups; ++g) {
        const size_t at = row * groups + g;
        if (q.second_scales[at] == 0) continue;
        Second& second = seconds[firsts[g]++];
        second = {static_cast<uint32_t>(row), q.second_scales[at], q.second_sums[at], {}};
        fill_bias(q.second_values + at * kQuantGroup, 1, second.bias_sums);
      }
    }
    // Each has come to the next one's beginning.
    std::memmove(firsts + 1, firsts, groups * sizeof(*firsts));
    firsts[0] = 0;
  }
};

// Adds groups [first, end) of the panel to the chains of kRows activation rows. x: each row's
// chunk. kAlone: a group of a pair that is added without the other. next: may be null.
template <class Q, size_t kRows, bool kAlone>
[[gnu::always_inline]] inline void multiply_tile(const Panel<Q>& panel, size_t first, size_t end,
                                                 const int8_t* const (&x)[kRows],
                                                 const float* scales, const int32_t* bias_sums,
                                                 float* const (&chains)[kRows],
                                                 const NextPanel<Q>* next) {
  using Floats = typename Q::Floats;
  constexpr size_t kVectors = Q::kVectors;
  constexpr size_t kLanes = Q::kOuts / kVectors;
  constexpr bool kPaired = Q::kPairs && !kAlone;
  Floats total[kRows * kVectors];
  Floats part[kRows * kVectors];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      total[r * kVectors + v] = Q::load(chains[r] + v * kLanes);
      Q::park(total[r * kVectors + v]);
      part[r * kVectors + v] = Q::zero();
    }
  }
  // The groups of a pair one after the other, else one alone.
  constexpr size_t kTogether = kPaired ? 2 : 1;
  for (size_t begin = first; begin < end; begin += kTogether) {
#pragma GCC unroll 2
    for (size_t of_pair = 0; of_pair < kTogether; ++of_pair) {
      const size_t g = begin + of_pair;
      if (next != nullptr) next->prefetch(g);
      Floats integers[kRows * kVectors];
      Q::template group_sums<kRows>(panel, g, x, bias_sums, integers);
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        const Floats scale = Q::load(panel.scales[g] + v * kLanes);
        Floats minimum = Q::zero();
        if constexpr (Q::kMinimum) minimum = Q::load(panel.minimums[g] + v * kLanes);
#pragma GCC unroll 16
        for (size_t r = 0; r < kRows; ++r) {
          const size_t i = r * kVectors + v;
          const Floats row_scale = Q::set(scales[r]);
          if constexpr (!Q::kPairs) {
            total[i] = Q::fma(integers[i], Q::mul(scale, row_scale), total[i]);
            if constexpr (Q::kMinimum)
              total[i] = Q::fma(minimum, Q::set(scales[kRows + r]), total[i]);
          } else {
            part[i] = of_pair == 0 ? Q::mul(integers[i], row_scale)
                                   : Q::fma(integers[i], row_scale, part[i]);
            if (of_pair + 1 == kTogether) {
              total[i] =
                  Q::fma(Q::fma(minimum, Q::set(scales[kRows + r]), part[i]), scale, total[i]);
            } else {
              Q::park(part[i]);
            }
          }
          Q::park(total[i]);
        }
      }
      scales += RowNumbers<Q>::kFloats * kRows;
      bias_sums += RowNumbers<Q>::kHalves * kRows;
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      Q::store(chains[r] + v * kLanes, total[r * kVectors + v]);
    }
  }
}

// The values of a block's rows, a chunk of columns of all rows after another: rows of wide matrices
// lie a multiple of pages apart, where a chunk of them would share a few sets of the caches.
template <class Q>
class PackedRows {
 public:
  PackedRows(int8_t* memory, const QuantizedRows& q, size_t rows, size_t groups)
      : values_(memory), rows_(rows) {
    for (size_t group = 0; group < groups; group += kChunkGroups) {
      const size_t count = groups - group < kChunkGroups ? groups - group : kChunkGroups;
      for (size_t r = 0; r < rows; ++r, memory += count * kQuantGroup) {
        std::memcpy(memory, q.values + (r * groups + group) * kQuantGroup, count * kQuantGroup);
      }
    }
  }
  // Of row `row`, in the chunk of `count` groups that begins with `group`.
  const int8_t* at(size_t row, size_t group, size_t count) const {
    return values_ + (group * rows_ + row * count) * kQuantGroup;
  }

 private:
  const int8_t* values_;
  size_t rows_;
};

// The first terms of a tile of kRows rows, which begins with row `row` of the block.
template <class Q, size_t kRows>
void add_first_terms(const Panel<Q>& panel, const RowNumbers<Q>& numbers,
                     const PackedRows<Q>& values, size_t row, size_t group, size_t count,
                     float* chains, const NextPanel<Q>* next) {
  const int8_t* x[kRows];
  float* chains_of[kRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    x[r] = values.at(row + r, group, count);
    chains_of[r] = chains + (row + r) * Q::kOuts;
  }
  multiply_tile<Q, kRows, false>(panel, 0, count, x, numbers.tile_scales(row, kRows, group),
                                 numbers.tile_bias_sums(row, kRows, group), chains_of, next);
}

// kRows second terms of group `group` of the row, which is group `g` of the panel.
template <class Q, size_t kRows>
void add_second_terms(const Panel<Q>& panel, const typename RowNumbers<Q>::Second* seconds,
                      const QuantizedRows& q, size_t cols, size_t group, size_t g, float* chains) {
  const int8_t* x[kRows];
  float* chains_of[kRows];
  float scales[2 * kRows];
  int32_t bias_sums[2 * kRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const auto& second = seconds[r];
    x[r] = q.second_values + second.row * cols + (group - g) * kQuantGroup;
    chains_of[r] = chains + second.row * Q::kOuts;
    scales[r] = second.scale;
    scales[kRows + r] = second.sum;
    bias_sums[r] = second.bias_sums[0];
    bias_sums[kRows + r] = second.bias_sums[1];
  }
  multiply_tile<Q, kRows, true>(panel, g, g + 1, x, scales, bias_sums, chains_of, nullptr);
}

// The panel of weight rows from `out` on that begins with group `group`. Beyond the last row it is
// of no use, and does no harm.
template <class Q>
NextPanel<Q> next_panel(const MatmulArgs& args, size_t out, size_t group) {
  const size_t groups = args.cols / kQuantGroup;
  const size_t count = groups - group < kChunkGroups ? groups - group : kChunkGroups;
  return {args.weights + out / Q::kTileRows * args.row_bytes + group * args.row_bytes / groups,
          args.row_bytes, count * args.row_bytes / groups};
}

// Writes what a panel's chains have come to: outputs [o, o + outs), those before args.out_begin
// left out.
template <class Q>
void store_panel(const MatmulArgs& args, const float* chains, size_t rows, size_t o, size_t outs,
                 float* y) {
  constexpr size_t kOuts = Q::kOuts;
  const size_t skipped = o < args.out_begin ? args.out_begin - o : 0;
  const bool whole_lines = outs - skipped == kOuts &&
                           reinterpret_cast<uintptr_t>(y + o) % kLine == 0 &&
                           args.y_stride * sizeof(float) % kLine == 0;
  if (rows >= kRowsToStream && whole_lines) {
    for (size_t r = 0; r < rows; ++r) Q::stream(y + r * args.y_stride + o, chains + r * kOuts);
    return;
  }
  for (size_t r = 0; r < rows; ++r) {
    std::memcpy(y + r * args.y_stride + o + skipped, chains + r * kOuts + skipped,
                (outs - skipped) * sizeof(float));
  }
}

// A block of activation rows against all outputs.
template <class Q>
void multiply_block(const MatmulArgs& args, const QuantizedRows& q, size_t rows, float* y) {
  constexpr size_t kOuts = Q::kOuts;
  static_assert(kOutsOfBlock % kOuts == 0);
  const size_t groups = args.cols / kQuantGroup;
  const size_t outs_at_once = rows < kRowsToChunk ? kOuts : kOutsOfBlock;
  std::byte* memory = reinterpret_cast<std::byte*>(args.scratch);
  Panel<Q>& panel = *reinterpret_cast<Panel<Q>*>(memory);
  // [panels][rows][kOuts]
  float* chains = reinterpret_cast<float*>(memory + sizeof(Panel<Q>));
  int8_t* values = reinterpret_cast<int8_t*>(chains + rows * outs_at_once);
  const PackedRows<Q> packed(values, q, rows, groups);
  RowNumbers<Q> numbers(values + rows * args.cols, rows, groups);

  // Tiles of equal size, but for the last.
  const size_t tiles = (rows + Q::kRows - 1) / Q::kRows;
  const size_t step = (rows + tiles - 1) / tiles;
  const auto rows_at = [&](size_t r) { return rows - r < step ? rows - r : step; };
  for (size_t r = 0; r < rows; r += step) numbers.gather(q, r, rows_at(r));
  numbers.gather_seconds(q);

  // One panel's groups [group, group + count).
  const auto multiply_panel = [&](NextPanel<Q> next, size_t group, size_t count, float* of_panel) {
    next.turns = tiles < 2 ? 1 : tiles < 4 ? 2 : 4;
    for (size_t r = 0; r < rows; r += step) {
      with_constant<Q::kRows>(rows_at(r), [&](auto constant) {
        add_first_terms<Q, constant.kValue>(panel, numbers, packed, r, group, count, of_panel,
                                            next.turn < next.turns ? &next : nullptr);
      });
      ++next.turn;
    }
    for (size_t g = 0; g < count; ++g) {
      const size_t last = numbers.firsts[group + g + 1];
      for (size_t i = numbers.firsts[group + g]; i < last; i += Q::kRows) {
        with_constant<Q::kRows>(last - i < Q::kRows ? last - i : Q::kRows, [&](auto constant) {
          add_second_terms<Q, constant.kValue>(panel, numbers.seconds + i, q, args.cols, group + g,
                                               g, of_panel);
        });
      }
    }
  };

  const size_t first_out = args.out_begin / Q::kTileRows * Q::kTileRows;
  for (size_t begin = first_out; begin < args.out_end; begin += outs_at_once) {
    const size_t end = args.out_end - begin < outs_at_once ? args.out_end : begin + outs_at_once;
    std::memset(chains, 0, rows * outs_at_once * sizeof(float));
    const auto chains_at = [&](size_t o) { return chains + (o - begin) * rows; };
    const auto outs_at = [&](size_t o) { return end - o < kOuts ? end - o : kOuts; };
    for (size_t group = 0; group < groups; group += kChunkGroups) {
      const size_t count = groups - group < kChunkGroups ? groups - group : kChunkGroups;
      const bool last_chunk = group + count == groups;
      for (size_t o = begin; o < end; o += kOuts) {
        Q::unpack(args, o, outs_at(o), group, count, panel);
        const bool last_panel = end - o <= kOuts;
        const NextPanel<Q> next = !last_panel  ? next_panel<Q>(args, o + kOuts, group)
                                  : last_chunk ? next_panel<Q>(args, end, 0)
                                               : next_panel<Q>(args, begin, group + count);
        multiply_panel(next, group, count, chains_at(o));
      }
    }
    for (size_t o = begin; o < end; o += kOuts)
      store_panel<Q>(args, chains_at(o), rows, o, outs_at(o), y);
  }
  Q::end_streams();
}

// Scratch of a block whose columns are so many groups.
template <class Q>
constexpr size_t block_bytes(size_t groups) {
  return sizeof(Panel<Q>) + kMostRowsOfBlock * kOutsOfBlock * sizeof(float) +
         kMostRowsOfBlock * groups * kQuantGroup + RowNumbers<Q>::bytes(kMostRowsOfBlock, groups);
}

template <class Q>
void matmul_q8_panels(const MatmulArgs& args) {
  static_assert(block_bytes<Q>(1024) <= matmul_scratch_floats(1024 * kQuantGroup) * sizeof(float));
  static_assert(block_bytes<Q>(16) <= matmul_scratch_floats(16 * kQuantGroup) * sizeof(float));
  static_assert(block_bytes<Q>(1) <= matmul_scratch_floats(kQuantGroup) * sizeof(float));
  for (size_t first = 0; first < args.rows; first += kMostRowsOfBlock) {
    const size_t rows = args.rows - first < kMostRowsOfBlock ? args.rows - first : kMostRowsOfBlock;
    multiply_block<Q>(args, args.q.from(first, args.cols), rows, args.y + first * args.y_stride);
  }
}

}  // namespace phidias::generic
