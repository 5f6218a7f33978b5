// Integer products of a group of 32 columns with the instructions that every 64-bit Arm has, and
// how a panel lies for them. An instruction set that has better ones brings a struct with the same
// members (A below):
//   kRows      activation rows of a tile
//   kFewRows   activation rows that are multiplied with tiles of Q4 as they lie
//   half_product(w, x), product<kLargest>(w, x)
//              the products of 16 or of all 32 columns, summed up to the last four sums
//   sums<kLargest, kHalves>(weights, x, half, sums)
//              the products of kHalves times 16 columns from half `half` on, summed up: sums
//              [kCount][4] of rows x [kCount] with sixteen weight rows; weights(step, v) is columns
//              4 step to 4 step + 3 of rows 4 v to 4 v + 3
//   store_steps(quants, step, v, even, odd)
//              such columns `step` (an even one) and `step` + 1 to their place in a panel
//   panel_sums<kLargest, kHalves>(quants, x, half, sums)
//              the same out of a group of a panel
// kLargest is the magnitude that no weight exceeds; no activation exceeds 127.
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/neon/unpack.h"

namespace phidias::neon {
namespace {

// Weight rows of a panel: those of a tile of Q4.
inline constexpr size_t kPanelOuts = 16;
inline constexpr size_t kPanelVectors = 4;
static_assert(kPanelOuts == Q4::kTileRows);

// Calls f with the constants 0 to kCount - 1: lanes and shifts are parts of an instruction.
template <size_t kCount, size_t kFrom = 0, class F>
[[gnu::always_inline]] inline void for_each_constant(F&& f) {
  if constexpr (kFrom < kCount) {
    f(generic::Constant<kFrom>{});
    for_each_constant<kCount, kFrom + 1>(f);
  }
}

// Panels as generic/matmul_q8.h has them: [step][row][4 columns].
struct FourColumnPanels {
  [[gnu::always_inline]] static inline void store_steps(int8_t* quants, size_t step, size_t v,
                                                        int8x16_t even, int8x16_t odd) {
    vst1q_s8(quants + (step * kPanelOuts + v * 4) * 4, even);
    vst1q_s8(quants + ((step + 1) * kPanelOuts + v * 4) * 4, odd);
  }
  struct Weights {
    const int8_t* quants;
    [[gnu::always_inline]] inline int8x16_t operator()(size_t step, size_t v) const {
      return vld1q_s8(quants + (step * kPanelOuts + v * 4) * 4);
    }
  };
};

struct Integers : FourColumnPanels {
  // Beside the sums in 16 bits, two registers for each of a row's four, their whole sums wait.
  static constexpr size_t kRows = 2;
  static constexpr size_t kFewRows = 2;

  // Products that can be added up in 16 bits.
  template <int kLargest>
  static constexpr int kRun = 32767 / (kLargest * 127);

  [[gnu::always_inline]] static inline int16x8_t pairs(int8x16_t w, int8x16_t x) {
    return vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x);
  }
  [[gnu::always_inline]] static inline int32x4_t half_product(int8x16_t w, int8x16_t x) {
    return vpaddlq_s16(pairs(w, x));
  }
  template <int kLargest>
  [[gnu::always_inline]] static inline int32x4_t product(const Group& w, const Group& x) {
    static_assert(kRun<kLargest> >= 2);
    if constexpr (kRun<kLargest> >= 4) {
      const int16x8_t first = pairs(w.halves[0], x.halves[0]);
      const int16x8_t low = vmlal_s8(first, vget_low_s8(w.halves[1]), vget_low_s8(x.halves[1]));
      return vpaddlq_s16(vmlal_high_s8(low, w.halves[1], x.halves[1]));
    } else {
      return vpadalq_s16(half_product(w.halves[0], x.halves[0]), pairs(w.halves[1], x.halves[1]));
    }
  }

  template <int kLargest, size_t kHalves, size_t kCount, class W>
  [[gnu::always_inline]] static inline void sums(const W& weights, const int8_t* const (&x)[kCount],
                                                 size_t half, int32x4_t (&sums)[kCount * 4]) {
    constexpr size_t kSteps = kHalves * 4;
    constexpr size_t kTogether = kRun<kLargest> >= kSteps ? kSteps : 2;
#pragma GCC unroll 4
    for (size_t first = half * 4; first < half * 4 + kSteps; first += kTogether) {
      int16x8_t run[kCount * 4][2];  // neighbouring columns of a row in neighbouring lanes
#pragma GCC unroll 8
      for (size_t step = first; step < first + kTogether; ++step) {
        int8x16_t values[kCount];
#pragma GCC unroll 4
        for (size_t r = 0; r < kCount; ++r) {
          int32_t four;
          std::memcpy(&four, x[r] + step * 4, sizeof(four));
          values[r] = vreinterpretq_s8_s32(vdupq_n_s32(four));
        }
#pragma GCC unroll 4
        for (size_t v = 0; v < kPanelVectors; ++v) {
          const int8x16_t w = weights(step, v);
#pragma GCC unroll 4
          for (size_t r = 0; r < kCount; ++r) {
            int16x8_t(&of)[2] = run[r * 4 + v];
            if (step == first) {
              of[0] = vmull_s8(vget_low_s8(w), vget_low_s8(values[r]));
              of[1] = vmull_high_s8(w, values[r]);
            } else {
              of[0] = vmlal_s8(of[0], vget_low_s8(w), vget_low_s8(values[r]));
              of[1] = vmlal_high_s8(of[1], w, values[r]);
            }
          }
        }
      }
#pragma GCC unroll 16
      for (size_t i = 0; i < kCount * 4; ++i) {
        const int32x4_t of_run = vpaddq_s32(vpaddlq_s16(run[i][0]), vpaddlq_s16(run[i][1]));
        sums[i] = first == half * 4 ? of_run : vaddq_s32(sums[i], of_run);
      }
    }
  }
  template <int kLargest, size_t kHalves, size_t kCount>
  [[gnu::always_inline]] static inline void panel_sums(const int8_t* quants,
                                                       const int8_t* const (&x)[kCount],
                                                       size_t half,
                                                       int32x4_t (&of_rows)[kCount * 4]) {
    sums<kLargest, kHalves>(Weights{quants}, x, half, of_rows);
  }
};

}  // namespace
}  // namespace phidias::neon
