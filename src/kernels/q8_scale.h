// The scale of a group rounded to int8: one rule for activations and the key-value cache, in every
// table.
#pragma once

namespace phidias {

// 0 where the scale would be subnormal: its inverse would overflow.
[[gnu::always_inline]] inline float q8_scale(float largest) {
  const float scale = largest / 127.0F;
  return scale < 0x1p-126F ? 0.0F : scale;
}

// 0 also for a scale that is infinite or NaN: the values are then 0, and the scale alone carries
// the infection on.
[[gnu::always_inline]] inline float q8_inverse(float scale) {
  return scale > 0 && scale <= 0x1.fffffep127F ? 1.0F / scale : 0.0F;
}

}  // namespace phidias
