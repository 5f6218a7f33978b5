#include "kernels/generic/elementwise.h"

#include "kernels/isa.h"
#include "kernels/neon/q8.h"

namespace phidias::neon {
namespace {

// What generic::quantize_q8 rounds.
struct Group {
  static constexpr size_t kRegisters = kQuantGroup / Vec::kLanes;
  float32x4_t x[kRegisters];
  int32x4_t whole[kRegisters];

  [[gnu::always_inline]] explicit Group(const float* from) {
    for (size_t i = 0; i < kRegisters; ++i) x[i] = Vec::load(from + i * Vec::kLanes);
  }
  [[gnu::always_inline]] float largest() const {
    uint32x4_t most = magnitude_bits(x[0]);
    for (size_t i = 1; i < kRegisters; ++i) most = vmaxq_u32(most, magnitude_bits(x[i]));
    return largest_of(most);
  }
  [[gnu::always_inline]] int32_t round(float inverse, int8_t* values) {
    int32x4_t total = vdupq_n_s32(0);
    for (size_t i = 0; i < kRegisters; ++i) {
      whole[i] = q8_round(x[i], inverse);
      total = vaddq_s32(total, whole[i]);
    }
    for (size_t i = 0; i < kRegisters; i += 2) {
      vst1_s8(values + i * Vec::kLanes, narrow(whole[i], whole[i + 1]));
    }
    return vaddvq_s32(total);
  }
  [[gnu::always_inline]] void leave(float scale) {
    for (size_t i = 0; i < kRegisters; ++i)
      x[i] = Vec::fma(Vec::set(-scale), vcvtq_f32_s32(whole[i]), x[i]);
  }
};

size_t argmax(const float* x, size_t count) {
  // The largest value first, then its first place.
  float32x4_t most = Vec::set(x[0]);
  uint32x4_t ordered = vdupq_n_u32(UINT32_MAX);
  size_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    const float32x4_t lanes = Vec::load(x + i);
    ordered = vandq_u32(ordered, vceqq_f32(lanes, lanes));
    most = Vec::max(lanes, most);
  }
  if (vminvq_u32(ordered) == 0) return count;
  float largest = Vec::largest(most);
  for (; i < count; ++i) {
    if (x[i] != x[i]) return count;
    if (x[i] > largest) largest = x[i];
  }
  for (i = 0; i < count; ++i) {
    if (x[i] == largest) return i;
  }
  return count;
}

}  // namespace

void fill_elementwise(KernelTable& table) {
  table.rms_norm = generic::rms_norm<Vec>;
  table.rope = generic::rope<Vec>;
  table.silu_mul = generic::silu_mul<Vec>;
  table.add = generic::add<Vec>;
  table.quantize_q8 = generic::quantize_q8<Vec, Group>;
  table.argmax = argmax;
}

}  // namespace phidias::neon
