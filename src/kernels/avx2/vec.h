// 8 floats in a register: half of the lanes that the order of arithmetic has.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace phidias::avx2 {
namespace {

struct Vec {
  using Floats = __m256;
  static constexpr size_t kLanes = 8;
  // 12 sums, 3 activations and a weight fill the 16 registers; 7 loads feed 12 multiply-adds.
  static constexpr size_t kLeftRows = 4;
  static constexpr size_t kRightRows = 3;
  // Sums that are kept in registers at once.
  static constexpr size_t kSums = 12;

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats set(float x) { return _mm256_set1_ps(x); }
  static Floats load(const float* p) { return _mm256_loadu_ps(p); }
  static Floats load_partial(const float* p, size_t n) { return _mm256_maskload_ps(p, first(n)); }
  static void store(float* p, Floats x) { _mm256_storeu_ps(p, x); }
  static void store_partial(float* p, Floats x, size_t n) { _mm256_maskstore_ps(p, first(n), x); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats div(Floats a, Floats b) { return _mm256_div_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Floats negative(Floats x) { return _mm256_xor_ps(x, set(-0.0F)); }
  // b where either is NaN.
  static Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
  static Floats zero_if_less(Floats x, Floats limit, Floats value) {
    return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), value);
  }
  // -infinity where the lane's bit is not set.
  static Floats hide(Floats x, uint32_t seen) {
    const __m256i own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set_bits = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(seen)), own);
    return _mm256_blendv_ps(set(-__builtin_inff()), x,
                            _mm256_castsi256_ps(_mm256_cmpeq_epi32(set_bits, own)));
  }
  // 2^n of a float that holds n + FloatExp::kRound.
  static Floats power_of_shifted(Floats shifted) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3F800000)));
  }

  static float fold(Floats x) {
    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
  }
  // Four folds at once: in each step two registers become one of half the lanes each.
  static __m128 fold4(const Floats* x) {
    const __m256 ac = _mm256_add_ps(_mm256_permute2f128_ps(x[0], x[2], 0x20),
                                    _mm256_permute2f128_ps(x[0], x[2], 0x31));
    const __m256 bd = _mm256_add_ps(_mm256_permute2f128_ps(x[1], x[3], 0x20),
                                    _mm256_permute2f128_ps(x[1], x[3], 0x31));
    // a0 a1 b0 b1 | c0 c1 d0 d1 and a2 a3 b2 b3 | ...
    const __m256 by2 =
        _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xEE));
    const __m256 by1 = _mm256_add_ps(by2, _mm256_movehdup_ps(by2));
    return _mm_shuffle_ps(_mm256_castps256_ps128(by1), _mm256_extractf128_ps(by1, 1), 0x88);
  }
  // Stored together, as whoever reads them next reads them.
  static void fold8(const Floats* x, float* out) {
    _mm256_storeu_ps(out, _mm256_set_m128(fold4(x + 4), fold4(x)));
  }
  static float largest(Floats x) {
    const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
  }

  struct F32Rows {
    static Floats load(const std::byte* row, size_t i) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(row) + i);
    }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return _mm256_maskload_ps(reinterpret_cast<const float*>(row) + i, first(n));
    }
  };
  struct F16Rows {
    static Floats load(const std::byte* row, size_t i) { return _mm256_cvtph_ps(load8x16(row, i)); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return _mm256_cvtph_ps(load_bytes(row + 2 * i, 2 * n));
    }
  };
  struct BF16Rows {
    static Floats widen(__m128i halves) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
    static Floats load(const std::byte* row, size_t i) { return widen(load8x16(row, i)); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return widen(load_bytes(row + 2 * i, 2 * n));
    }
  };
  struct Int8Rows {
    static Floats widen(__m128i bytes) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)); }
    static Floats load(const std::byte* row, size_t i) {
      return widen(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + i)));
    }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return widen(load_bytes(row + i, n));
    }
  };

  // 8 doubles in two registers.
  struct Doubles {
    __m256d low;
    __m256d high;
  };
  static Doubles zero_f64() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
  static Doubles set_f64(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
  static Doubles load_f64(const double* p) { return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
  static void store_f64(double* p, Doubles x) {
    _mm256_storeu_pd(p, x.low);
    _mm256_storeu_pd(p + 4, x.high);
  }
  static Doubles widen(__m256 x) {
    return {_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
            _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
  }
  static __m256 narrow(Doubles x) {
    return _mm256_set_m128(_mm256_cvtpd_ps(x.high), _mm256_cvtpd_ps(x.low));
  }
  static Doubles widen(const float* p) {
    return {_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
  }
  static Doubles widen_partial(const float* p, size_t n) {
    return widen(_mm256_maskload_ps(p, first(n)));
  }
  static void narrow_partial(float* p, Doubles x, size_t n) {
    _mm256_maskstore_ps(p, first(n), narrow(x));
  }
  // Rounded to float and back.
  static Doubles as_float(Doubles x) { return widen(narrow(x)); }
  static Doubles add(Doubles a, Doubles b) {
    return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
  }
  static Doubles sub(Doubles a, Doubles b) {
    return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)};
  }
  static Doubles mul(Doubles a, Doubles b) {
    return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
  }
  static Doubles div(Doubles a, Doubles b) {
    return {_mm256_div_pd(a.low, b.low), _mm256_div_pd(a.high, b.high)};
  }
  static Doubles fma(Doubles a, Doubles b, Doubles c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
  }
  static Doubles zero_if_less(Doubles x, Doubles limit, Doubles value) {
    return {_mm256_andnot_pd(_mm256_cmp_pd(x.low, limit.low, _CMP_LT_OQ), value.low),
            _mm256_andnot_pd(_mm256_cmp_pd(x.high, limit.high, _CMP_LT_OQ), value.high)};
  }
  static __m256d power_of_shifted(__m256d shifted) {
    const __m256i exponent = _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52);
    return _mm256_castsi256_pd(_mm256_add_epi64(exponent, _mm256_set1_epi64x(0x3FF0000000000000)));
  }
  static Doubles power_of_shifted(Doubles x) {
    return {power_of_shifted(x.low), power_of_shifted(x.high)};
  }
  static double fold(Doubles x) {
    const __m256d by4 = _mm256_add_pd(x.low, x.high);
    const __m128d by2 = _mm_add_pd(_mm256_castpd256_pd128(by4), _mm256_extractf128_pd(by4, 1));
    return _mm_cvtsd_f64(_mm_add_sd(by2, _mm_unpackhi_pd(by2, by2)));
  }

  // By the instruction: the library's function would be called for negative numbers.
  static double root(double x) {
    return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(x)));
  }

  // The mask of the first n (at most 8) lanes.
  static __m256i first(size_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
  }
  // n (at most 16) bytes, the rest 0.
  static __m128i load_bytes(const std::byte* p, size_t n) {
    alignas(16) std::byte bytes[16] = {};
    std::memcpy(bytes, p, n);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  }

 private:
  static __m128i load8x16(const std::byte* row, size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i));
  }
};

}  // namespace
}  // namespace phidias::avx2
