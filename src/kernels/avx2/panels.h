// What the panels of all formats share. Local to the including file.
#pragma once

#include <cstring>

#include "kernels/generic/matmul_q8.h"
#include "kernels/x86/unpack.h"

namespace phidias::avx2 {
namespace {

using x86::load32;

// In a register: the compiler would rather load it again for each of its uses.
[[gnu::always_inline]] inline void keep(__m256i& x) { asm("" : "+x"(x)); }

// Sums of neighbouring int16 as int32.
inline __m256i widen_pairs(__m256i x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }

// Products of signed bytes as sums of neighbours: the sign moves from one factor to the other,
// since the instruction wants one unsigned. |w| <= 128 and |x| <= 127, so no sum exceeds an int16.
inline __m256i signed_products(__m256i magnitude, __m256i w, __m256i x) {
  return _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, w));
}

// Per step of four columns two registers of weights meet four rows of activations: six loads for
// eight products. The sums of a group, the weights and a product take twelve registers, all else
// waits in memory.
struct Registers {
  using Floats = __m256;
  static constexpr size_t kOuts = 16;
  static constexpr size_t kVectors = 2;
  static constexpr size_t kRows = 4;

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats set(float x) { return _mm256_set1_ps(x); }
  static Floats load(const float* p) { return _mm256_load_ps(p); }
  static void store(float* p, Floats x) { _mm256_store_ps(p, x); }
  static void stream(float* y, const float* chains) {
    constexpr size_t kLanes = kOuts / kVectors;
    for (size_t v = 0; v < kVectors; ++v)
      _mm256_stream_ps(y + v * kLanes, load(chains + v * kLanes));
  }
  static void end_streams() { _mm_sfence(); }
  static void park(Floats& x) { asm("" : "+m"(x)); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

  // A pair of int16: what sums of pairs are multiplied with.
  static int32_t code_lane(int32_t code) {
    const uint32_t half = static_cast<uint16_t>(code);
    return static_cast<int32_t>(half << 16 | half);
  }

  // kRun: steps whose products' sum fits an int16.
  template <class Q, int kRun, bool kSigned, size_t kCount>
  [[gnu::always_inline]] static inline void sums_of(const generic::Panel<Q>& panel, size_t group,
                                                    const int8_t* const (&x)[kCount],
                                                    const int32_t* bias_sums, Floats* sums) {
    __m256i whole[kCount * 2];
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; k += kRun) {
      __m256i run[kCount * 2];
#pragma GCC unroll 8
      for (size_t i = k; i < k + kRun; ++i) {
        __m256i w[2];
        __m256i magnitude[2];
#pragma GCC unroll 2
        for (size_t v = 0; v < 2; ++v) {
          w[v] = load32(panel.quants[group][i][v * 8]);
          keep(w[v]);
          magnitude[v] = kSigned ? _mm256_abs_epi8(w[v]) : w[v];
        }
#pragma GCC unroll 8
        for (size_t r = 0; r < kCount; ++r) {
          int32_t four;
          std::memcpy(&four, x[r] + group * kQuantGroup + i * 4, sizeof(four));
          const __m256i values = _mm256_set1_epi32(four);
#pragma GCC unroll 2
          for (size_t v = 0; v < 2; ++v) {
            const __m256i products = kSigned ? signed_products(magnitude[v], w[v], values)
                                             : _mm256_maddubs_epi16(w[v], values);
            __m256i& sum = run[r * 2 + v];
            sum = i == k ? products : _mm256_add_epi16(sum, products);
          }
        }
      }
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) {
        const __m256i factor =
            Q::kHalves ? load32(panel.codes[group][k / 4] + v * 8) : _mm256_set1_epi16(1);
#pragma GCC unroll 8
        for (size_t r = 0; r < kCount; ++r) {
          __m256i& sum = whole[r * 2 + v];
          const __m256i widened = _mm256_madd_epi16(run[r * 2 + v], factor);
          sum = k == 0 ? widened : _mm256_add_epi32(sum, widened);
        }
      }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) {
        __m256i& sum = whole[r * 2 + v];
        if constexpr (Q::kBias != 0) sum = _mm256_add_epi32(sum, _mm256_set1_epi32(bias_sums[r]));
        sums[r * 2 + v] = _mm256_cvtepi32_ps(sum);
      }
    }
  }
};

}  // namespace
}  // namespace phidias::avx2
