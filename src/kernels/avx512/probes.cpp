#include "kernels/probes.h"

#include <immintrin.h>

#include "kernels/generic/read_patterns.h"

namespace phidias::avx512_vnni {
namespace {

struct Vec {
  static constexpr size_t kBytes = 64;
  __m512i v;

  static Vec zero() { return {_mm512_setzero_si512()}; }
  static Vec load(const std::byte* at) { return {_mm512_loadu_si512(at)}; }
  Vec operator|(const Vec& other) const { return {_mm512_or_si512(v, other.v)}; }
  uint64_t low() const {
    return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(v)));
  }
};

constexpr size_t kChains = 12;

uint64_t fma_rounds(size_t rounds) {
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 half = _mm512_set1_ps(0.5F);
  const __m512 one = _mm512_set1_ps(1.0F);
  for (size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, half, one);
  }
  __m512 total = _mm512_setzero_ps();
  for (const __m512& sum : sums) total = _mm512_add_ps(total, sum);
  return static_cast<uint64_t>(_mm512_cvtss_f32(total));
}

uint64_t vnni_rounds(size_t rounds) {
  __m512i sums[kChains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const __m512i weights = _mm512_set1_epi8(3);
  const __m512i activations = _mm512_set1_epi8(5);
  for (size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, weights, activations);
    }
  }
  __m512i total = _mm512_setzero_si512();
  for (const __m512i& sum : sums) total = _mm512_add_epi32(total, sum);
  return Vec{total}.low();
}

}  // namespace

constinit const MachineProbes kProbes = {kReadPatterns<Vec>,
                                         {"vfmadd, 512 bits", 2.0 * kChains * 16, fma_rounds},
                                         {"vpdpbusd, 512 bits", 2.0 * kChains * 64, vnni_rounds}};

}  // namespace phidias::avx512_vnni
