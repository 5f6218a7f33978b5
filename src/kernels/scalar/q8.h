// Rounding to int8 with one scale: shared by activations and the key-value cache.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

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

// 0 where the scale would be subnormal: its inverse would overflow.
inline float q8_scale(float largest) {
  const float scale = largest / 127.0F;
  return scale < 0x1p-126F ? 0.0F : scale;
}

// 0 also for a scale that is infinite or NaN: the values are then 0, and the scale alone carries
// the infection on.
inline float q8_inverse(float scale) {
  return scale > 0 && scale <= 0x1.fffffep127F ? 1.0F / scale : 0.0F;
}

// To nearest, ties to even. |x * inverse| is at most 127 (1 + 2^-22), which rounds to 127.
inline int8_t q8_value(float x, float inverse) {
  return inverse == 0 ? int8_t{0} : static_cast<int8_t>(std::nearbyint(x * inverse));
}

}  // namespace phidias
