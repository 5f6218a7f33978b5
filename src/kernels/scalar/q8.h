// Rounding to int8 with one scale: shared by activations and the key-value cache.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/q8_scale.h"

namespace phidias {

// As bits, since there NaN is larger than infinity and so is never lost.
inline float largest_magnitude(const float* x, size_t n) {
  uint32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU;
    if (magnitude > largest) largest = magnitude;
  }
  return std::bit_cast<float>(largest);
}

// To nearest, ties to even. |x * inverse| is at most 127 (1 + 2^-22), which rounds to 127.
inline int8_t q8_value(float x, float inverse) {
  return inverse == 0 ? int8_t{0} : static_cast<int8_t>(std::nearbyint(x * inverse));
}

}  // namespace phidias
