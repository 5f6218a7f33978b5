// Products of four columns by one instruction: SDOT. Local to the including file.
#pragma once

#include "kernels/neon/integers.h"

namespace phidias::neon_dotprod {
namespace {

using neon::Group;
using neon::kPanelVectors;

struct Integers : neon::FourColumnPanels {
  // 16 sums in registers; each of 16 loads of weights feeds four products.
  static constexpr size_t kRows = 4;
  static constexpr size_t kFewRows = 2;

  [[gnu::always_inline]] static inline int32x4_t half_product(int8x16_t w, int8x16_t x) {
    return vdotq_s32(vdupq_n_s32(0), w, x);
  }
  template <int kLargest>
  [[gnu::always_inline]] static inline int32x4_t product(const Group& w, const Group& x) {
    return vdotq_s32(half_product(w.halves[0], x.halves[0]), w.halves[1], x.halves[1]);
  }

  template <int kLargest, size_t kHalves, size_t kCount, class W>
  [[gnu::always_inline]] static inline void sums(const W& weights, const int8_t* const (&x)[kCount],
                                                 size_t half, int32x4_t (&sums)[kCount * 4]) {
#pragma GCC unroll 16
    for (int32x4_t& sum : sums) sum = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (size_t h = half; h < half + kHalves; ++h) {
      int8x16_t values[kCount];
#pragma GCC unroll 4
      for (size_t r = 0; r < kCount; ++r) values[r] = vld1q_s8(x[r] + h * 16);
      neon::for_each_constant<4>([&](auto step) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (size_t v = 0; v < kPanelVectors; ++v) {
          const int8x16_t w = weights(h * 4 + step.kValue, v);
#pragma GCC unroll 4
          for (size_t r = 0; r < kCount; ++r) {
            sums[r * 4 + v] = vdotq_laneq_s32(sums[r * 4 + v], w, values[r], step.kValue);
          }
        }
      });
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
}  // namespace phidias::neon_dotprod
