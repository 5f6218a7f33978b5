// Rounding registers to int8 with one scale, as scalar/q8.h does.
#pragma once

#include "kernels/avx2/vec.h"

namespace phidias::avx2 {
namespace {

// |x| as whole numbers: their order is that of the magnitudes, with NaN above all.
[[gnu::always_inline]] inline __m256i magnitude_bits(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF));
}
[[gnu::always_inline]] inline float largest_of(__m256i bits) {
  const __m128i by4 =
      _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  const __m128i by2 = _mm_max_epi32(by4, _mm_shuffle_epi32(by4, 0x4E));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(by2, _mm_shuffle_epi32(by2, 0xB1))));
}

[[gnu::always_inline]] inline __m256i q8_round(__m256 x, float inverse) {
  // Without an inverse the values may be infinite or NaN: they become 0 by the mask.
  const __m256i whole = _mm256_cvtps_epi32(Vec::mul(x, Vec::set(inverse)));
  return _mm256_and_si256(whole, _mm256_set1_epi32(inverse == 0 ? 0 : -1));
}

}  // namespace
}  // namespace phidias::avx2
