// Products of two rows by two rows of eight columns by one instruction: SMMLA. Local to the
// including file.
#pragma once

#include "kernels/neon_dotprod/integers.h"

namespace phidias::neon_i8mm {
namespace {

using neon::kPanelOuts;
using neon::kPanelVectors;

// One activation row gains nothing by it; nor do tiles of Q4 as they lie, in fours of columns.
struct Integers : neon_dotprod::Integers {
  // Panels: [step of eight columns][pair of weight rows][row][column].
  static constexpr size_t kPairs = kPanelOuts / 2;

  [[gnu::always_inline]] static inline void store_steps(int8_t* quants, size_t step, size_t v,
                                                        int8x16_t even, int8x16_t odd) {
    const int32x4_t first = vreinterpretq_s32_s8(even);
    const int32x4_t second = vreinterpretq_s32_s8(odd);
    int8_t* to = quants + (step / 2 * kPairs + v * 2) * 16;
    vst1q_s8(to, vreinterpretq_s8_s32(vzip1q_s32(first, second)));
    vst1q_s8(to + 16, vreinterpretq_s8_s32(vzip2q_s32(first, second)));
  }

  template <int kLargest, size_t kHalves, size_t kCount>
  [[gnu::always_inline]] static inline void panel_sums(const int8_t* quants,
                                                       const int8_t* const (&x)[kCount],
                                                       size_t half, int32x4_t (&sums)[kCount * 4]) {
    constexpr size_t kRowPairs = (kCount + 1) / 2;
    int32x4_t squares[kRowPairs * kPairs];
#pragma GCC unroll 16
    for (int32x4_t& square : squares) square = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (size_t h = half; h < half + kHalves; ++h) {
      int8x16_t values[kRowPairs][2];  // eight columns of both rows
#pragma GCC unroll 2
      for (size_t p = 0; p < kRowPairs; ++p) {
        // Without a second row the first one is its own.
        const int8_t* second = x[2 * p + 1 < kCount ? 2 * p + 1 : 2 * p];
        const int64x2_t above = vreinterpretq_s64_s8(vld1q_s8(x[2 * p] + h * 16));
        const int64x2_t below = vreinterpretq_s64_s8(vld1q_s8(second + h * 16));
        values[p][0] = vreinterpretq_s8_s64(vzip1q_s64(above, below));
        values[p][1] = vreinterpretq_s8_s64(vzip2q_s64(above, below));
      }
#pragma GCC unroll 2
      for (size_t step = 0; step < 2; ++step) {
#pragma GCC unroll 8
        for (size_t pair = 0; pair < kPairs; ++pair) {
          const int8x16_t w = vld1q_s8(quants + ((h * 2 + step) * kPairs + pair) * 16);
#pragma GCC unroll 2
          for (size_t p = 0; p < kRowPairs; ++p) {
            int32x4_t& square = squares[p * kPairs + pair];
            square = vmmlaq_s32(square, values[p][step], w);
          }
        }
      }
    }
#pragma GCC unroll 2
    for (size_t p = 0; p < kRowPairs; ++p) {
#pragma GCC unroll 4
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const int64x2_t first = vreinterpretq_s64_s32(squares[p * kPairs + 2 * v]);
        const int64x2_t second = vreinterpretq_s64_s32(squares[p * kPairs + 2 * v + 1]);
        sums[2 * p * 4 + v] = vreinterpretq_s32_s64(vzip1q_s64(first, second));
        if (2 * p + 1 < kCount) {
          sums[(2 * p + 1) * 4 + v] = vreinterpretq_s32_s64(vzip2q_s64(first, second));
        }
      }
    }
  }
};

}  // namespace
}  // namespace phidias::neon_i8mm
