// Arrays in registers of a vector type, the last one perhaps not full.
#pragma once

#include <cstddef>

namespace phidias::generic {

// Calls f(i, n) for runs of n floats, n = V::kLanes but for the last.
template <class V, class F>
[[gnu::always_inline]] inline void each_run(size_t count, F f) {
  size_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) f(i, V::kLanes);
  if (i < count) f(i, count - i);
}
template <class V>
[[gnu::always_inline]] inline typename V::Floats load(const float* p, size_t n) {
  return n == V::kLanes ? V::load(p) : V::load_partial(p, n);
}
template <class V>
[[gnu::always_inline]] inline void store(float* p, typename V::Floats x, size_t n) {
  if (n == V::kLanes) {
    V::store(p, x);
  } else {
    V::store_partial(p, x, n);
  }
}

}  // namespace phidias::generic
