// Arrays in registers, the last one perhaps not full.
#pragma once

#include "kernels/avx2/vec.h"

namespace phidias::avx2 {
namespace {

constexpr size_t kLanes = Vec::kLanes;

// Calls f(i, n) for runs of n floats, n = kLanes but for the last.
template <class F>
[[gnu::always_inline]] inline void each_run(size_t count, F f) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, kLanes);
  if (i < count) f(i, count - i);
}
[[gnu::always_inline]] inline __m256 load(const float* p, size_t n) {
  return n == kLanes ? Vec::load(p) : Vec::load_partial(p, n);
}
[[gnu::always_inline]] inline void store(float* p, __m256 x, size_t n) {
  if (n == kLanes) {
    Vec::store(p, x);
  } else {
    Vec::store_partial(p, x, n);
  }
}

}  // namespace
}  // namespace phidias::avx2
