// The packing that the 4 and 5 bit formats with blocks of 32 share, and the two ways to choose
// their scale.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace phidias {

// Two quants of 4 bits a byte: value i in the low nibble of byte i, value i + 16 in the high one.
inline void unpack_nibbles(const uint8_t (&packed)[16], uint8_t (&quants)[32]) {
  for (size_t i = 0; i < 16; ++i) {
    quants[i] = packed[i] & 0x0F;
    quants[i + 16] = packed[i] >> 4;
  }
}

inline void pack_nibbles(const uint8_t (&quants)[32], uint8_t (&packed)[16]) {
  for (size_t i = 0; i < 16; ++i) {
    packed[i] = static_cast<uint8_t>((quants[i] & 0x0F) | (quants[i + 16] << 4));
  }
}

// The fifth bits of 32 quants.
inline void unpack_fifth_bits(const uint8_t (&high)[4], uint8_t (&quants)[32]) {
  for (size_t i = 0; i < 32; ++i) {
    const int bit = (high[i / 8] >> (i % 8)) & 1;
    quants[i] = static_cast<uint8_t>(quants[i] | (bit << 4));
  }
}

inline void pack_fifth_bits(const uint8_t (&quants)[32], uint8_t (&high)[4]) {
  for (size_t i = 0; i < 32; ++i) {
    high[i / 8] = static_cast<uint8_t>(high[i / 8] | ((quants[i] >> 4) << (i % 8)));
  }
}

// The value of largest magnitude, the first of equals: it is given the lowest quant, the only one
// whose counterpart of the other sign is missing.
inline float signed_peak(const float* values, size_t count) {
  float peak = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::fabs(values[i]) > std::fabs(peak)) peak = values[i];
  }
  return peak;
}

struct Range {
  float low;
  float high;
};

inline Range range_of(const float* values, size_t count) {
  const auto [low, high] = std::minmax_element(values, values + count);
  return {*low, *high};
}

}  // namespace phidias
