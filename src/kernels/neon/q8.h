// Rounding registers to int8 with one scale, as scalar/q8.h does.
#pragma once

#include "kernels/neon/vec.h"

namespace phidias::neon {
namespace {

// |x| as whole numbers: their order is that of the magnitudes, with NaN above all.
[[gnu::always_inline]] inline uint32x4_t magnitude_bits(float32x4_t x) {
  return vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7FFFFFFF));
}
[[gnu::always_inline]] inline float largest_of(uint32x4_t bits) {
  return vget_lane_f32(vreinterpret_f32_u32(vdup_n_u32(vmaxvq_u32(bits))), 0);
}

[[gnu::always_inline]] inline int32x4_t q8_round(float32x4_t x, float inverse) {
  // Without an inverse the values may be infinite or NaN: they become 0 by the mask.
  const int32x4_t whole = vcvtnq_s32_f32(vmulq_n_f32(x, inverse));
  return vandq_s32(whole, vdupq_n_s32(inverse == 0 ? 0 : -1));
}
// The low bytes of two registers.
[[gnu::always_inline]] inline int8x8_t narrow(int32x4_t first, int32x4_t second) {
  return vmovn_s16(vcombine_s16(vmovn_s32(first), vmovn_s32(second)));
}

}  // namespace
}  // namespace phidias::neon
