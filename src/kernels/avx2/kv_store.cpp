#include "kernels/generic/kv_store.h"

#include "kernels/avx2/q8.h"
#include "kernels/generic/runs.h"
#include "kernels/isa.h"
#include "kernels/q8_scale.h"

namespace phidias::avx2 {
namespace {

struct F16 {
  using Element = uint16_t;
  static void round(const float* src, Element* dst, size_t dim) {
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i),
                       _mm256_cvtps_ph(generic::load<Vec>(src + i, n), _MM_FROUND_TO_NEAREST_INT));
    });
  }
};

struct BF16 {
  using Element = uint16_t;
  static void round(const float* src, Element* dst, size_t dim) {
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      const __m256 x = generic::load<Vec>(src + i, n);
      const __m256i bits = _mm256_castps_si256(x);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
      const __m256i nearest =
          _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
      const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
      const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
      const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(nearest, quiet, nan), 16);
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(dst + i),
          _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1)));
    });
  }
};

struct Q8 {
  using Element = int8_t;
  static float round(const float* src, int8_t* dst, size_t dim) {
    __m256i most = _mm256_setzero_si256();
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      most = _mm256_max_epi32(most, magnitude_bits(generic::load<Vec>(src + i, n)));
    });
    const float scale = q8_scale(largest_of(most));
    const float inverse = q8_inverse(scale);
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      const __m256i whole = q8_round(generic::load<Vec>(src + i, n), inverse);
      const __m128i words =
          _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(dst + i), _mm_packs_epi16(words, words));
    });
    return scale;
  }
};

}  // namespace

void fill_kv_store(KernelTable& table) { generic::fill_kv_store<Vec, F16, BF16, Q8>(table); }

}  // namespace phidias::avx2
