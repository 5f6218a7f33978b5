#include "kernels/probes.h"

#include <immintrin.h>

#include "kernels/generic/read_patterns.h"

namespace phidias::avx2 {
namespace {

struct Vec {
  static constexpr size_t kBytes = 32;
  __m256i v;

  static Vec zero() { return {_mm256_setzero_si256()}; }
  static Vec load(const std::byte* at) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))};
  }
  Vec operator|(const Vec& other) const { return {_mm256_or_si256(v, other.v)}; }
  uint64_t low() const { return static_cast<uint64_t>(_mm256_extract_epi64(v, 0)); }
};

constexpr size_t kChains = 12;  // latency 4 and two units: 8 at least

uint64_t fma_rounds(size_t rounds) {
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const __m256 half = _mm256_set1_ps(0.5F);
  const __m256 one = _mm256_set1_ps(1.0F);
  for (size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, half, one);
  }
  __m256 total = _mm256_setzero_ps();
  for (const __m256& sum : sums) total = _mm256_add_ps(total, sum);
  return static_cast<uint64_t>(_mm256_cvtss_f32(total));
}

// The widest sums that four-bit weights allow: 16 products in an int16, closed by one product with
// ones. The operands change from round to round, so that nothing can be taken out of the loop.
uint64_t maddubs_rounds(size_t rounds) {
  constexpr size_t kProducts = 8;
  __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  __m256i weights = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i activations = _mm256_set1_epi8(5);
  for (size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (__m256i& sum : sums) {
      __m256i narrow = _mm256_maddubs_epi16(weights, activations);
#pragma GCC unroll 8
      for (size_t k = 1; k < kProducts; ++k) {
        asm volatile("" : "+x"(activations));
        narrow = _mm256_add_epi16(narrow, _mm256_maddubs_epi16(weights, activations));
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(narrow, ones));
      asm volatile("" : "+x"(activations));
    }
  }
  return static_cast<uint64_t>(_mm256_extract_epi64(_mm256_add_epi32(sums[0], sums[1]), 0));
}

}  // namespace

constinit const MachineProbes kProbes = {
    kReadPatterns<Vec>,
    {"vfmadd, 256 bits", 2.0 * kChains * 8, fma_rounds},
    {"vpmaddubsw and vpaddw, 256 bits", 2.0 * 2 * 8 * 32, maddubs_rounds}};

}  // namespace phidias::avx2
