#include "kernels/generic/elementwise.h"

#include "kernels/avx2/q8.h"
#include "kernels/isa.h"

namespace phidias::avx2 {
namespace {

// What generic::quantize_q8 rounds.
struct Group {
  __m256 x[4];
  __m256i whole[4];

  [[gnu::always_inline]] explicit Group(const float* from) {
    for (size_t i = 0; i < 4; ++i) x[i] = Vec::load(from + i * Vec::kLanes);
  }
  [[gnu::always_inline]] float largest() const {
    return largest_of(
        _mm256_max_epi32(_mm256_max_epi32(magnitude_bits(x[0]), magnitude_bits(x[1])),
                         _mm256_max_epi32(magnitude_bits(x[2]), magnitude_bits(x[3]))));
  }
  [[gnu::always_inline]] int32_t round(float inverse, int8_t* values) {
    for (size_t i = 0; i < 4; ++i) whole[i] = q8_round(x[i], inverse);
    const __m256i total = _mm256_add_epi32(_mm256_add_epi32(whole[0], whole[1]),
                                           _mm256_add_epi32(whole[2], whole[3]));
    const __m128i by4 =
        _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    const __m128i by2 = _mm_add_epi32(by4, _mm_shuffle_epi32(by4, 0x4E));
    // The packs work within halves, so that the lanes come out as 0 4 1 5 2 6 3 7.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                              _mm256_packs_epi32(whole[2], whole[3]));
    const __m256i ordered =
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), ordered);
    return _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xB1)));
  }
  [[gnu::always_inline]] void leave(float scale) {
    for (size_t i = 0; i < 4; ++i)
      x[i] = Vec::fma(Vec::set(-scale), _mm256_cvtepi32_ps(whole[i]), x[i]);
  }
};

size_t argmax(const float* x, size_t count) {
  // The largest value first, then its first place.
  __m256 most = Vec::set(x[0]);
  __m256 unordered = Vec::zero();
  generic::each_run<Vec>(count, [&](size_t i, size_t n) {
    const __m256 lanes = n == Vec::kLanes
                             ? Vec::load(x + i)
                             : _mm256_blendv_ps(Vec::set(x[0]), Vec::load_partial(x + i, n),
                                                _mm256_castsi256_ps(Vec::first(n)));
    unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(lanes, lanes, _CMP_UNORD_Q));
    most = Vec::max(lanes, most);
  });
  if (_mm256_movemask_ps(unordered) != 0) return count;
  const float largest = Vec::largest(most);
  for (size_t i = 0; i < count; ++i) {
    if (x[i] == largest) return i;
  }
  return count;
}

}  // namespace

void fill_elementwise(KernelTable& table) {
  table.rms_norm = generic::rms_norm<Vec>;
  table.rope = generic::rope<Vec>;
  table.silu_mul = generic::silu_mul<Vec>;
  table.add = generic::add<Vec>;
  table.quantize_q8 = generic::quantize_q8<Vec, Group>;
  table.argmax = argmax;
}

}  // namespace phidias::avx2
