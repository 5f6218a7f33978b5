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
//   group_sums<kRows>(panel, group, x, x_stride, bias_sums, bias_stride, Floats* sums)
//              the exact integer sums of one group as floats
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/table.h"

namespace phidias::generic {

// Where the panel's parts lie in the scratch. Sizes for kOuts <= 16 and cols a multiple of 32:
// 16 cols + 2 cols + 2 or 4 cols bytes for the panel and cols / 4 bytes for each activation row's
// bias sums, of kScratchWeightRows * 4 * cols = 64 cols.
template <class Q>
struct Panel {
  static constexpr size_t kOuts = Q::kOuts;
  static constexpr size_t kHalves = Q::kHalves ? 2 : 1;

  size_t groups = 0;
  size_t chain_groups = 0;       // positions of a chain: groups / kGroupChains, rounded up
  uint8_t* quants = nullptr;     // [groups][8][kOuts][4]
  float* scales = nullptr;       // [groups][kOuts]
  float* minimums = nullptr;     // [groups][kOuts]
  int32_t* codes = nullptr;      // [groups][2][kOuts], in Q's own form
  int32_t* bias_sums = nullptr;  // [rows][groups][kHalves]: kBias * sum of the row's values

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
    bias_sums = reinterpret_cast<int32_t*>(next);
  }

  // Where group g lies: the groups of chain 0, then those of chain 1, ...
  size_t position(size_t g) const {
    const size_t chain = g % kGroupChains;
    const size_t full =
        groups % kGroupChains;  // chains below this have chain_groups, the rest 1 less
    const size_t missing = full == 0 || chain <= full ? 0 : chain - full;
    return chain * chain_groups - missing + g / kGroupChains;
  }
};

template <class Q, size_t kRows>
void multiply_tile(const Panel<Q>& panel, const QuantizedRows& q, size_t cols, size_t first_row,
                   const int32_t* bias_sums, size_t outs, float* y, size_t y_stride) {
  using Floats = typename Q::Floats;
  const int8_t* x = q.values + first_row * cols;
  const float* scales = q.scales + first_row * panel.groups;
  const float* sums = q.sums + first_row * panel.groups;
  const size_t bias_stride = panel.groups * Panel<Q>::kHalves;
  Floats chains[kGroupChains][kRows];
  size_t position = 0;
  for (size_t chain = 0; chain < kGroupChains; ++chain) {
    Floats total[kRows];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) total[r] = Q::zero();
    for (size_t g = chain; g < panel.groups; g += kGroupChains, ++position) {
      Floats integers[kRows];
      Q::template group_sums<kRows>(panel, position, x + g * kQuantGroup, cols,
                                    bias_sums + g * Panel<Q>::kHalves, bias_stride, integers);
      const Floats scale = Q::load(panel.scales + position * Q::kOuts);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const Floats both = Q::mul(scale, Q::set(scales[r * panel.groups + g]));
        total[r] = Q::fma(integers[r], both, total[r]);
        if constexpr (Q::kMinimum) {
          total[r] = Q::fma(Q::load(panel.minimums + position * Q::kOuts),
                            Q::set(sums[r * panel.groups + g]), total[r]);
        }
      }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) chains[chain][r] = total[r];
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t half = kGroupChains / 2; half > 0; half /= 2) {
      for (size_t chain = 0; chain < half; ++chain) {
        chains[chain][r] = Q::add(chains[chain][r], chains[chain + half][r]);
      }
    }
    if (outs == Q::kOuts) {
      Q::store(y + r * y_stride, chains[0][r]);
    } else {
      Q::store_partial(y + r * y_stride, chains[0][r], outs);
    }
  }
}

// Activation rows that go through one panel before the next: few enough for the second-level cache
// and for the room of their bias sums in the scratch.
inline constexpr size_t kBlockBytes = 256 * 1024;
inline constexpr size_t kMostRowsOfBlock = 128;

template <class Q>
void matmul_q8_panels(const MatmulArgs& args) {
  Panel<Q> panel(args.scratch, args.cols);
  size_t block = args.cols == 0 ? kMostRowsOfBlock : kBlockBytes / args.cols;
  if (block > kMostRowsOfBlock) block = kMostRowsOfBlock;
  block = block < 2 * Q::kRows ? 2 * Q::kRows : block / Q::kRows * Q::kRows;
  constexpr size_t kHalfGroup = kQuantGroup / Panel<Q>::kHalves;

  for (size_t first = 0; first < args.rows; first += block) {
    const size_t rows = args.rows - first < block ? args.rows - first : block;
    if constexpr (Q::kBias != 0) {
      for (size_t i = 0; i < rows * panel.groups * Panel<Q>::kHalves; ++i) {
        const int8_t* x = args.q.values + first * args.cols + i * kHalfGroup;
        int32_t sum = 0;
        for (size_t k = 0; k < kHalfGroup; ++k) sum += x[k];
        panel.bias_sums[i] = Q::kBias * sum;
      }
    }
    for (size_t o = args.out_begin; o < args.out_end; o += Q::kOuts) {
      const size_t outs = args.out_end - o < Q::kOuts ? args.out_end - o : Q::kOuts;
      Q::unpack(args.weights + o * args.row_bytes, args.row_bytes, outs, panel);
      for (size_t r = 0; r < rows; r += Q::kRows) {
        const size_t tile_rows = rows - r < Q::kRows ? rows - r : Q::kRows;
        with_constant<Q::kRows>(tile_rows, [&](auto constant) {
          multiply_tile<Q, constant.value>(panel, args.q, args.cols, first + r,
                                           panel.bias_sums + r * panel.groups * Panel<Q>::kHalves,
                                           outs, args.y + (first + r) * args.y_stride + o,
                                           args.y_stride);
        });
      }
    }
  }
}

}  // namespace phidias::generic
