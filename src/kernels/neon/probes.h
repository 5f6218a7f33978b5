// What the probes of the Arm tables share. Local to the including file.
#pragma once

#include <arm_neon.h>

#include "kernels/generic/read_patterns.h"

namespace phidias::neon {
namespace {

struct ProbeVec {
  static constexpr size_t kBytes = 16;
  uint8x16_t v;

  static ProbeVec zero() { return {vdupq_n_u8(0)}; }
  static ProbeVec load(const std::byte* at) {
    return {vld1q_u8(reinterpret_cast<const uint8_t*>(at))};
  }
  ProbeVec operator|(const ProbeVec& other) const { return {vorrq_u8(v, other.v)}; }
  uint64_t low() const { return vgetq_lane_u64(vreinterpretq_u64_u8(v), 0); }
};

constexpr size_t kChains = 20;  // latency 4 and up to four units

uint64_t fma_rounds(size_t rounds) {
  float32x4_t sums[kChains];
  for (float32x4_t& sum : sums) sum = vdupq_n_f32(0);
  const float32x4_t half = vdupq_n_f32(0.5F);
  const float32x4_t one = vdupq_n_f32(1.0F);
  for (size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 32
    for (float32x4_t& sum : sums) sum = vfmaq_f32(one, sum, half);
  }
  float32x4_t total = vdupq_n_f32(0);
  for (const float32x4_t& sum : sums) total = vaddq_f32(total, sum);
  return static_cast<uint64_t>(vgetq_lane_f32(total, 0));
}
constexpr PeakProbe kFmaProbe = {"fmla, 128 bits", 2.0 * kChains * 4, fma_rounds};

// Dot::add(sum, weights, activations) on int32 sums.
template <class Dot>
uint64_t dot_rounds(size_t rounds) {
  int32x4_t sums[kChains];
  for (int32x4_t& sum : sums) sum = vdupq_n_s32(0);
  const int8x16_t weights = vdupq_n_s8(3);
  int8x16_t activations = vdupq_n_s8(5);
  for (size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 32
    for (int32x4_t& sum : sums) sum = Dot::add(sum, weights, activations);
    // The operands change from round to round, so that nothing can be taken out of the loop.
    asm volatile("" : "+w"(activations));
  }
  int32x4_t total = vdupq_n_s32(0);
  for (const int32x4_t& sum : sums) total = vaddq_s32(total, sum);
  return static_cast<uint64_t>(vgetq_lane_s32(total, 0));
}

}  // namespace
}  // namespace phidias::neon
