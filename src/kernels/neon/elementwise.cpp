#include "kernels/generic/exp.h"
#include "kernels/isa.h"
#include "kernels/neon/q8.h"
#include "kernels/neon/runs.h"

namespace phidias::neon {
namespace {

void rms_norm(const float* x, const float* weight, float eps, float* y, size_t count) {
  const double mean = sum_of_squares(x, count) / static_cast<double>(count);
  const double root = __builtin_sqrt(mean + static_cast<double>(eps));
  const float32x4_t inverse = Vec::set(static_cast<float>(1.0 / root));
  each_run(count, [&](size_t i, size_t n) {
    store(y + i, Vec::mul(load(weight + i, n), Vec::mul(load(x + i, n), inverse)), n);
  });
}

void rope(float* head, const float* cosine, const float* sine, size_t half) {
  each_run(half, [&](size_t i, size_t n) {
    const float32x4_t a = load(head + i, n);
    const float32x4_t b = load(head + half + i, n);
    const float32x4_t c = load(cosine + i, n);
    const float32x4_t s = load(sine + i, n);
    store(head + i, Vec::sub(Vec::mul(a, c), Vec::mul(b, s)), n);
    store(head + half + i, Vec::add(Vec::mul(b, c), Vec::mul(a, s)), n);
  });
}

void silu_mul(const float* gate, const float* up, float* y, size_t count) {
  each_run(count, [&](size_t i, size_t n) {
    const float32x4_t g = load(gate + i, n);
    const float32x4_t exponential = generic::exp_floats<Vec>(vnegq_f32(g));
    const float32x4_t activated = Vec::div(g, Vec::add(Vec::set(1.0F), exponential));
    store(y + i, Vec::mul(load(up + i, n), activated), n);
  });
}

void add(float* x, const float* y, size_t count) {
  each_run(count,
           [&](size_t i, size_t n) { store(x + i, Vec::add(load(x + i, n), load(y + i, n)), n); });
}

constexpr size_t kRegisters = kQuantGroup / kLanes;

// The largest magnitude of a group.
[[gnu::always_inline]] inline float largest_of(const float32x4_t (&v)[kRegisters]) {
  uint32x4_t most = magnitude_bits(v[0]);
  for (size_t i = 1; i < kRegisters; ++i) most = vmaxq_u32(most, magnitude_bits(v[i]));
  return largest_of(most);
}

// One group: `whole` are its values as int32.
[[gnu::always_inline]] inline void quantize_group(const float32x4_t (&v)[kRegisters], float largest,
                                                  int32x4_t (&whole)[kRegisters], int8_t* values,
                                                  float* scale_out, float* sum_out) {
  const Q8Scale scale = q8_scale(largest);
  int32x4_t total = vdupq_n_s32(0);
  for (size_t i = 0; i < kRegisters; ++i) {
    whole[i] = q8_round(v[i], scale.inverse);
    total = vaddq_s32(total, whole[i]);
  }
  for (size_t i = 0; i < kRegisters; i += 2) {
    vst1_s8(values + i * kLanes, narrow(whole[i], whole[i + 1]));
  }
  *scale_out = scale.scale;
  *sum_out = scale.scale * static_cast<float>(vaddvq_s32(total));
}

void quantize_q8(const float* x, const QuantizedRows& row, size_t count) {
  const double mean = sum_of_squares(x, count) / static_cast<double>(count);
  const double limit = kSecondTermRms * __builtin_sqrt(mean);
  for (size_t g = 0; g < count / kQuantGroup; ++g) {
    float32x4_t v[kRegisters];
    for (size_t i = 0; i < kRegisters; ++i) v[i] = Vec::load(x + g * kQuantGroup + i * kLanes);
    const float largest = largest_of(v);
    int32x4_t whole[kRegisters];
    quantize_group(v, largest, whole, row.values + g * kQuantGroup, row.scales + g, row.sums + g);
    row.second_scales[g] = 0;
    if (static_cast<double>(largest) > limit) {
      const float32x4_t scale = Vec::set(-row.scales[g]);
      for (size_t i = 0; i < kRegisters; ++i) {
        v[i] = Vec::fma(scale, vcvtq_f32_s32(whole[i]), v[i]);
      }
      quantize_group(v, largest_of(v), whole, row.second_values + g * kQuantGroup,
                     row.second_scales + g, row.second_sums + g);
    }
  }
}

size_t argmax(const float* x, size_t count) {
  // The largest value first, then its first place.
  float32x4_t most = Vec::set(x[0]);
  uint32x4_t ordered = vdupq_n_u32(UINT32_MAX);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
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
  table.rms_norm = rms_norm;
  table.rope = rope;
  table.silu_mul = silu_mul;
  table.add = add;
  table.quantize_q8 = quantize_q8;
  table.argmax = argmax;
}

}  // namespace phidias::neon
