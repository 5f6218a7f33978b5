// Arrays in registers, the last one perhaps not full.
#pragma once

#include "kernels/neon/vec.h"
#include "kernels/order.h"

namespace phidias::neon {
namespace {

constexpr size_t kLanes = Vec::kLanes;

// Calls f(i, n) for runs of n floats, n = kLanes but for the last.
template <class F>
[[gnu::always_inline]] inline void each_run(size_t count, F f) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, kLanes);
  if (i < count) f(i, count - i);
}
[[gnu::always_inline]] inline float32x4_t load(const float* p, size_t n) {
  return n == kLanes ? Vec::load(p) : Vec::load_partial(p, n);
}
[[gnu::always_inline]] inline void store(float* p, float32x4_t x, size_t n) {
  if (n == kLanes) {
    Vec::store(p, x);
  } else {
    Vec::store_partial(p, x, n);
  }
}

// The sum of squares in double.
[[gnu::always_inline]] inline double sum_of_squares(const float* x, size_t count) {
  Vec::Doubles lanes = Vec::zero_f64();
  size_t i = 0;
  for (; i + kDoubleLanes <= count; i += kDoubleLanes) {
    const Vec::Doubles value = Vec::widen(x + i);
    lanes = Vec::fma(value, value, lanes);
  }
  if (i < count) {
    const Vec::Doubles value = Vec::widen_partial(x + i, count - i);
    lanes = Vec::fma(value, value, lanes);
  }
  return Vec::fold(lanes);
}

}  // namespace
}  // namespace phidias::neon
