// matmul_q8 for many activation rows: weight rows side by side in the lanes of a register.
//
// A panel of kOuts weight rows is unpacked once for all activation rows. In it, four neighbouring
// columns of one weight row are a lane of 32 bits, kOuts of which make a register: an activation
// row's four values are broadcast against them, and what adds up in a lane is the integer sum of
// one output. Groups of a chain (order.h) lie one after another, since a chain is summed to its end
// before the next.
//
// Q is the arithmetic of an instruction set and a format:
//   kOuts      weight rows of a panel
//   kRows      activation rows of a tile
//   kBias      what the panel's quants are above their meaning; 0 if they are signed
//   kHalves    whether the two halves of a group have codes of their own
//   kMinimum   whether a group has a minimum
//   Floats     kOuts floats, with load, store, store_partial, zero, set, add, mul, fma
//   unpack(weights, row_bytes, outs, groups, panel)
//   group_sums<kRows>(panel, position, x, x_stride, bias_sums, Floats* sums)
//              the exact integer sums of one group as floats; bias_sums [kHalves][kRows]
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/table.h"

namespace phidias::generic {

// Activation rows that go through one panel before the next: enough to pay for unpacking it again
// for the next ones. Each row is read once for kOuts outputs, so that any cache is near enough.
inline constexpr size_t kMostRowsOfBlock = 192;

// The parts of the scratch. With kOuts <= 16 the weights take (16 + 2 + 4) cols bytes at most, the
// numbers of the activation rows 192 * 3 * cols / 8, of kScratchWeightRows * 4 * cols = 96 cols.
template <class Q>
struct Panel {
  static constexpr size_t kOuts = Q::kOuts;
  static constexpr size_t kHalves = Q::kHalves ? 2 : 1;
  static constexpr size_t kRowFloats = Q::kMinimum ? 2 : 1;

  size_t groups = 0;
  size_t chain_groups = 0;    // positions of a chain: groups / kGroupChains, rounded up
  uint8_t* quants = nullptr;  // [groups][8][kOuts][4]
  float* scales = nullptr;    // [groups][kOuts]
  float* minimums = nullptr;  // [groups][kOuts]
  int32_t* codes = nullptr;   // [groups][2][kOuts], in Q's own form
  // Of each tile of activation rows, in the order in which they are used:
  float* row_scales = nullptr;   // [groups][kRowFloats][rows of the tile]: scales, then sums
  int32_t* bias_sums = nullptr;  // [groups][kHalves][rows of the tile]: -kBias * sum of values

  Panel(float* scratch, size_t cols)
      : groups(cols / kQuantGroup), chain_groups((groups + kGroupChains - 1) / kGroupChains) {
    scales = scratch;
    float* next = scales + groups * kOuts;
    if constexpr (Q::kMinimum) {
      minimums = next;
      next += groups * kOuts;
    }
    if constexpr (Q::kHalves) {
      codes = reinterpret_cast<int32_t*>(next);
      next += 2 * groups * kOuts;
    }
    quants = reinterpret_cast<uint8_t*>(next);
    next += groups * kOuts * (kQuantGroup / sizeof(float));
    row_scales = next;
    next += kMostRowsOfBlock * groups * kRowFloats;
    bias_sums = reinterpret_cast<int32_t*>(next);
  }

  // Numbers of a tile that begins with row r of the block.
  float* tile_scales(size_t r) const { return row_scales + r * groups * kRowFloats; }
  int32_t* tile_bias_sums(size_t r) const { return bias_sums + r * groups * kHalves; }

  // Where group g lies: the groups of chain 0, then those of chain 1, ...
  size_t position(size_t g) const {
    const size_t chain = g % kGroupChains;
    const size_t full =
        groups % kGroupChains;  // chains below this have chain_groups, the rest 1 less
    const size_t missing = full == 0 || chain <= full ? 0 : chain - full;
    return chain * chain_groups - missing + g / kGroupChains;
  }
};

// Puts the numbers of a tile of activation rows in order.
template <class Q>
void gather_rows(const Panel<Q>& panel, const QuantizedRows& q, size_t first_row, size_t r,
                 size_t rows) {
  constexpr size_t kHalves = Panel<Q>::kHalves;
  constexpr size_t kHalfGroup = kQuantGroup / kHalves;
  for (size_t g = 0; g < panel.groups; ++g) {
    const size_t position = panel.position(g);
    float* scales = panel.tile_scales(r) + position * Panel<Q>::kRowFloats * rows;
    int32_t* bias_sums = panel.tile_bias_sums(r) + position * kHalves * rows;
    for (size_t i = 0; i < rows; ++i) {
      const size_t group = (first_row + r + i) * panel.groups + g;
      scales[i] = q.scales[group];
      if constexpr (Q::kMinimum) scales[rows + i] = q.sums[group];
      for (size_t half = 0; Q::kBias != 0 && half < kHalves; ++half) {
        const int8_t* values = q.values + group * kQuantGroup + half * kHalfGroup;
        int32_t sum = 0;
        for (size_t k = 0; k < kHalfGroup; ++k) sum += values[k];
        bias_sums[half * rows + i] = -Q::kBias * sum;
      }
    }
  }
}

// y of a panel and the tile of kRows activation rows that begins with row r of the block.
template <class Q, size_t kRows>
void multiply_tile(const Panel<Q>& panel, const int8_t* x, size_t cols, size_t r, size_t outs,
                   float* y, size_t y_stride) {
  using Floats = typename Q::Floats;
  Floats chains[kGroupChains][kRows];
  const float* scales = panel.tile_scales(r);
  const int32_t* bias_sums = panel.tile_bias_sums(r);
  size_t position = 0;
  for (size_t chain = 0; chain < kGroupChains; ++chain) {
    Floats total[kRows];
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) total[i] = Q::zero();
    for (size_t g = chain; g < panel.groups; g += kGroupChains, ++position) {
      Floats integers[kRows];
      Q::template group_sums<kRows>(panel, position, x + g * kQuantGroup, cols, bias_sums,
                                    integers);
      const Floats scale = Q::load(panel.scales + position * Q::kOuts);
#pragma GCC unroll 16
      for (size_t i = 0; i < kRows; ++i) {
        total[i] = Q::fma(integers[i], Q::mul(scale, Q::set(scales[i])), total[i]);
      }
      if constexpr (Q::kMinimum) {
        const Floats minimum = Q::load(panel.minimums + position * Q::kOuts);
#pragma GCC unroll 16
        for (size_t i = 0; i < kRows; ++i) {
          total[i] = Q::fma(minimum, Q::set(scales[kRows + i]), total[i]);
        }
      }
      scales += Panel<Q>::kRowFloats * kRows;
      bias_sums += Panel<Q>::kHalves * kRows;
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) chains[chain][i] = total[i];
  }
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t half = kGroupChains / 2; half > 0; half /= 2) {
      for (size_t chain = 0; chain < half; ++chain) {
        chains[chain][i] = Q::add(chains[chain][i], chains[chain + half][i]);
      }
    }
    if (outs == Q::kOuts) {
      Q::store(y + i * y_stride, chains[0][i]);
    } else {
      Q::store_partial(y + i * y_stride, chains[0][i], outs);
    }
  }
}

template <class Q>
void matmul_q8_panels(const MatmulArgs& args) {
  Panel<Q> panel(args.scratch, args.cols);
  constexpr size_t kBlock = kMostRowsOfBlock / Q::kRows * Q::kRows;

  for (size_t first = 0; first < args.rows; first += kBlock) {
    const size_t rows = args.rows - first < kBlock ? args.rows - first : kBlock;
    const auto tile_rows = [&](size_t r) { return rows - r < Q::kRows ? rows - r : Q::kRows; };
    for (size_t r = 0; r < rows; r += Q::kRows) {
      gather_rows(panel, args.q, first, r, tile_rows(r));
    }
    for (size_t o = args.out_begin; o < args.out_end; o += Q::kOuts) {
      const size_t outs = args.out_end - o < Q::kOuts ? args.out_end - o : Q::kOuts;
      Q::unpack(args.weights + o * args.row_bytes, args.row_bytes, outs, panel);
      for (size_t r = 0; r < rows; r += Q::kRows) {
        with_constant<Q::kRows>(tile_rows(r), [&](auto constant) {
          multiply_tile<Q, constant.kValue>(
              panel, args.q.values + (first + r) * args.cols, args.cols, r, outs,
              args.y + (first + r) * args.y_stride + o, args.y_stride);
        });
      }
    }
  }
}

}  // namespace phidias::generic
