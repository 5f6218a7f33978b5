// 16 floats in a register.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace phidias::avx512_vnni {
namespace {

struct Vec {
  using Floats = __m512;
  static constexpr size_t kLanes = 16;
  // 24 sums, 6 activations and a weight fill the 32 registers; 10 loads feed 24 multiply-adds.
  static constexpr size_t kLeftRows = 4;
  static constexpr size_t kRightRows = 6;
  // Sums that are kept in registers at once.
  static constexpr size_t kSums = 24;

  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats set(float x) { return _mm512_set1_ps(x); }
  static Floats load(const float* p) { return _mm512_loadu_ps(p); }
  static Floats load_partial(const float* p, size_t n) {
    return _mm512_maskz_loadu_ps(first(n), p);
  }
  static void store(float* p, Floats x) { _mm512_storeu_ps(p, x); }
  static void store_partial(float* p, Floats x, size_t n) { _mm512_mask_storeu_ps(p, first(n), x); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  // b where either is NaN.
  static Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Floats zero_if_less(Floats x, Floats limit, Floats value) {
    return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), zero());
  }
  // -infinity where the lane's bit is not set.
  static Floats hide(Floats x, uint32_t seen) {
    return _mm512_mask_mov_ps(set(-__builtin_inff()), static_cast<__mmask16>(seen), x);
  }
  // 2^n of a float that holds n + FloatExp::kRound.
  static Floats power_of_shifted(Floats shifted) {
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3F800000)));
  }

  static float fold(Floats x) {
    const __m256 high = _mm512_extractf32x8_ps(x, 1);
    const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(x), high);
    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
  }
  // Eight folds at once: in each step two registers become one of half the lanes each. They are
  // stored together, as whoever reads them next reads them.
  static void fold8(const Floats* x, float* out) {
    Floats by4[2];
    for (size_t i = 0; i < 2; ++i) {
      const Floats* four = x + 4 * i;
      const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(four[0], four[1], 0x44),
                                      _mm512_shuffle_f32x4(four[0], four[1], 0xEE));
      const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(four[2], four[3], 0x44),
                                      _mm512_shuffle_f32x4(four[2], four[3], 0xEE));
      by4[i] =
          _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    }
    // a0 a1 e0 e1 | b0 b1 f0 f1 | ..., where 2 has been added to 0 and 3 to 1.
    const __m512 by2 = _mm512_add_ps(_mm512_shuffle_ps(by4[0], by4[1], 0x44),
                                     _mm512_shuffle_ps(by4[0], by4[1], 0xEE));
    const __m512 by1 = _mm512_add_ps(by2, _mm512_movehdup_ps(by2));
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm256_storeu_ps(out, _mm512_castps512_ps256(_mm512_permutexvar_ps(firsts, by1)));
  }
  static float largest(Floats x) { return _mm512_reduce_max_ps(x); }

  struct F32Rows {
    static Floats load(const std::byte* row, size_t i) { return _mm512_loadu_ps(row + 4 * i); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return _mm512_maskz_loadu_ps(first(n), row + 4 * i);
    }
  };
  struct F16Rows {
    static Floats load(const std::byte* row, size_t i) { return _mm512_cvtph_ps(load16(row, i)); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), row + 2 * i));
    }
  };
  struct BF16Rows {
    static Floats widen(__m256i halves) {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
    static Floats load(const std::byte* row, size_t i) { return widen(load16(row, i)); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return widen(_mm256_maskz_loadu_epi16(first(n), row + 2 * i));
    }
  };
  struct Int8Rows {
    static Floats load(const std::byte* row, size_t i) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i));
      return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
    }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(n), row + i)));
    }
  };

  // 8 doubles.
  using Doubles = __m512d;
  static Doubles zero_f64() { return _mm512_setzero_pd(); }
  static Doubles set_f64(double x) { return _mm512_set1_pd(x); }
  static Doubles load_f64(const double* p) { return _mm512_loadu_pd(p); }
  static void store_f64(double* p, Doubles x) { _mm512_storeu_pd(p, x); }
  static Doubles widen(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static Doubles widen_partial(const float* p, size_t n) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(static_cast<__mmask8>(first(n)), p));
  }
  static void narrow_partial(float* p, Doubles x, size_t n) {
    _mm256_mask_storeu_ps(p, static_cast<__mmask8>(first(n)), _mm512_cvtpd_ps(x));
  }
  // Rounded to float and back.
  static Doubles as_float(Doubles x) { return _mm512_cvtps_pd(_mm512_cvtpd_ps(x)); }
  static Doubles add(Doubles a, Doubles b) { return _mm512_add_pd(a, b); }
  static Doubles sub(Doubles a, Doubles b) { return _mm512_sub_pd(a, b); }
  static Doubles mul(Doubles a, Doubles b) { return _mm512_mul_pd(a, b); }
  static Doubles div(Doubles a, Doubles b) { return _mm512_div_pd(a, b); }
  static Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
  static Doubles zero_if_less(Doubles x, Doubles limit, Doubles value) {
    return _mm512_mask_mov_pd(value, _mm512_cmp_pd_mask(x, limit, _CMP_LT_OQ), zero_f64());
  }
  static Doubles power_of_shifted(Doubles shifted) {
    const __m512i exponent = _mm512_slli_epi64(_mm512_castpd_si512(shifted), 52);
    return _mm512_castsi512_pd(_mm512_add_epi64(exponent, _mm512_set1_epi64(0x3FF0000000000000)));
  }
  static double fold(Doubles x) {
    const __m256d by4 = _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1));
    const __m128d by2 = _mm_add_pd(_mm256_castpd256_pd128(by4), _mm256_extractf128_pd(by4, 1));
    return _mm_cvtsd_f64(_mm_add_sd(by2, _mm_unpackhi_pd(by2, by2)));
  }

 private:
  static __mmask16 first(size_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
  static __m256i load16(const std::byte* row, size_t i) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 2 * i));
  }
};

}  // namespace
}  // namespace phidias::avx512_vnni
