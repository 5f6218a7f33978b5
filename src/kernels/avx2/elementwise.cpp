#include "kernels/avx2/q8.h"
#include "kernels/avx2/runs.h"
#include "kernels/generic/exp.h"
#include "kernels/isa.h"

namespace phidias::avx2 {
namespace {

void rms_norm(const float* x, const float* weight, float eps, float* y, size_t count) {
  Vec::Doubles lanes = Vec::zero_f64();
  each_run(count, [&](size_t i, size_t n) {
    const Vec::Doubles value = Vec::widen(load(x + i, n));
    lanes = Vec::fma(value, value, lanes);
  });
  const double mean = Vec::fold(lanes) / static_cast<double>(count);
  const __m128d root = _mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(mean + static_cast<double>(eps)));
  const __m256 inverse = Vec::set(static_cast<float>(1.0 / _mm_cvtsd_f64(root)));
  each_run(count, [&](size_t i, size_t n) {
    store(y + i, Vec::mul(load(weight + i, n), Vec::mul(load(x + i, n), inverse)), n);
  });
}

void rope(float* head, const float* cosine, const float* sine, size_t half) {
  each_run(half, [&](size_t i, size_t n) {
    const __m256 a = load(head + i, n);
    const __m256 b = load(head + half + i, n);
    const __m256 c = load(cosine + i, n);
    const __m256 s = load(sine + i, n);
    store(head + i, Vec::sub(Vec::mul(a, c), Vec::mul(b, s)), n);
    store(head + half + i, Vec::add(Vec::mul(b, c), Vec::mul(a, s)), n);
  });
}

void silu_mul(const float* gate, const float* up, float* y, size_t count) {
  const __m256 sign = Vec::set(-0.0F);
  each_run(count, [&](size_t i, size_t n) {
    const __m256 g = load(gate + i, n);
    const __m256 exponential = generic::exp_floats<Vec>(_mm256_xor_ps(g, sign));
    const __m256 activated = Vec::div(g, Vec::add(Vec::set(1.0F), exponential));
    store(y + i, Vec::mul(load(up + i, n), activated), n);
  });
}

void add(float* x, const float* y, size_t count) {
  each_run(count,
           [&](size_t i, size_t n) { store(x + i, Vec::add(load(x + i, n), load(y + i, n)), n); });
}

// The largest magnitude of a group.
[[gnu::always_inline]] inline float largest_of(const __m256 (&v)[4]) {
  return largest_of(_mm256_max_epi32(_mm256_max_epi32(magnitude_bits(v[0]), magnitude_bits(v[1])),
                                     _mm256_max_epi32(magnitude_bits(v[2]), magnitude_bits(v[3]))));
}

// One group: `whole` are its values as int32.
[[gnu::always_inline]] inline void quantize_group(const __m256 (&v)[4], float largest,
                                                  __m256i (&whole)[4], int8_t* values,
                                                  float* scale_out, float* sum_out) {
  const Q8Scale scale = q8_scale(largest);
  for (size_t i = 0; i < 4; ++i) whole[i] = q8_round(v[i], scale.inverse);
  const __m256i total =
      _mm256_add_epi32(_mm256_add_epi32(whole[0], whole[1]), _mm256_add_epi32(whole[2], whole[3]));
  const __m128i by4 =
      _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
  const __m128i by2 = _mm_add_epi32(by4, _mm_shuffle_epi32(by4, 0x4E));
  const int32_t sum = _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xB1)));
  // The packs work within halves, so that the lanes come out as 0 4 1 5 2 6 3 7.
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                            _mm256_packs_epi32(whole[2], whole[3]));
  const __m256i ordered =
      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), ordered);
  *scale_out = scale.scale;
  *sum_out = scale.scale * static_cast<float>(sum);
}

void quantize_q8(const float* x, const QuantizedRows& row, size_t count) {
  Vec::Doubles squares = Vec::zero_f64();
  for (size_t i = 0; i < count; i += kLanes) {
    const Vec::Doubles value = Vec::widen(Vec::load(x + i));
    squares = Vec::fma(value, value, squares);
  }
  const __m128d mean = _mm_set_sd(Vec::fold(squares) / static_cast<double>(count));
  const double limit = kSecondTermRms * _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), mean));
  for (size_t g = 0; g < count / kQuantGroup; ++g) {
    __m256 v[4];
    for (size_t i = 0; i < 4; ++i) v[i] = Vec::load(x + g * kQuantGroup + i * kLanes);
    const float largest = largest_of(v);
    __m256i whole[4];
    quantize_group(v, largest, whole, row.values + g * kQuantGroup, row.scales + g, row.sums + g);
    row.second_scales[g] = 0;
    if (static_cast<double>(largest) > limit) {
      const __m256 scale = Vec::set(-row.scales[g]);
      for (size_t i = 0; i < 4; ++i) v[i] = Vec::fma(scale, _mm256_cvtepi32_ps(whole[i]), v[i]);
      quantize_group(v, largest_of(v), whole, row.second_values + g * kQuantGroup,
                     row.second_scales + g, row.second_sums + g);
    }
  }
}

size_t argmax(const float* x, size_t count) {
  // The largest value first, then its first place.
  __m256 most = Vec::set(x[0]);
  __m256 unordered = Vec::zero();
  each_run(count, [&](size_t i, size_t n) {
    const __m256 lanes = n == kLanes ? Vec::load(x + i)
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
  table.rms_norm = rms_norm;
  table.rope = rope;
  table.silu_mul = silu_mul;
  table.add = add;
  table.quantize_q8 = quantize_q8;
  table.argmax = argmax;
}

}  // namespace phidias::avx2
