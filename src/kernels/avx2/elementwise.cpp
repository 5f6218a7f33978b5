#include <cstring>

#include "kernels/avx2/vec.h"
#include "kernels/generic/exp.h"
#include "kernels/isa.h"
#include "kernels/x86/fill.h"

namespace phidias::avx2 {
namespace {

using namespace x86;

constexpr size_t kLanes = Vec::kLanes;

// Calls f(i, n) for runs of n floats, n = kLanes but for the last.
template <class F>
[[gnu::always_inline]] inline void each_run(size_t count, F f) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, kLanes);
  if (i < count) f(i, count - i);
}
[[gnu::always_inline]] inline __m256 load(const float* p, size_t n) {
  return n == kLanes ? Vec::load(p) : Vec::load_partial(p, n);
}
[[gnu::always_inline]] inline void store(float* p, __m256 x, size_t n) {
  if (n == kLanes) {
    Vec::store(p, x);
  } else {
    Vec::store_partial(p, x, n);
  }
}

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

// As in scalar/q8.h.
struct Q8Scale {
  float scale;
  float inverse;
};
[[gnu::always_inline]] inline Q8Scale q8_scale(float largest) {
  const float quotient = largest / 127.0F;
  const float scale = quotient < 0x1p-126F ? 0.0F : quotient;
  return {scale, scale > 0 && scale <= 0x1.fffffep127F ? 1.0F / scale : 0.0F};
}
[[gnu::always_inline]] inline __m256i q8_round(__m256 x, float inverse) {
  // Without an inverse the values may be infinite or NaN: they become 0 by the mask.
  const __m256i whole = _mm256_cvtps_epi32(Vec::mul(x, Vec::set(inverse)));
  return _mm256_and_si256(whole, _mm256_set1_epi32(inverse == 0 ? 0 : -1));
}

void quantize_q8(const float* x, int8_t* values, float* scales, float* sums, size_t count) {
  for (size_t g = 0; g < count / kQuantGroup; ++g) {
    __m256 v[4];
    for (size_t i = 0; i < 4; ++i) v[i] = Vec::load(x + g * kQuantGroup + i * kLanes);
    const __m256i most =
        _mm256_max_epi32(_mm256_max_epi32(magnitude_bits(v[0]), magnitude_bits(v[1])),
                         _mm256_max_epi32(magnitude_bits(v[2]), magnitude_bits(v[3])));
    const Q8Scale scale = q8_scale(largest_of(most));
    __m256i whole[4];
    for (size_t i = 0; i < 4; ++i) whole[i] = q8_round(v[i], scale.inverse);
    const __m256i total = _mm256_add_epi32(_mm256_add_epi32(whole[0], whole[1]),
                                           _mm256_add_epi32(whole[2], whole[3]));
    const __m128i by4 =
        _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    const __m128i by2 = _mm_add_epi32(by4, _mm_shuffle_epi32(by4, 0x4E));
    const int32_t sum = _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xB1)));
    // The packs work within halves, so that the lanes come out as 0 4 1 5 2 6 3 7.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                              _mm256_packs_epi32(whole[2], whole[3]));
    const __m256i ordered =
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + g * kQuantGroup), ordered);
    scales[g] = scale.scale;
    sums[g] = scale.scale * static_cast<float>(sum);
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

void store_f16(const float* src, std::byte* dst, size_t dim) {
  each_run(dim, [&](size_t i, size_t n) {
    alignas(16) uint16_t halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves),
                    _mm256_cvtps_ph(load(src + i, n), _MM_FROUND_TO_NEAREST_INT));
    std::memcpy(dst + 2 * i, halves, 2 * n);
  });
}

void store_bf16(const float* src, std::byte* dst, size_t dim) {
  each_run(dim, [&](size_t i, size_t n) {
    const __m256 x = load(src + i, n);
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i nearest =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(nearest, quiet, nan), 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    alignas(16) uint16_t halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves), packed);
    std::memcpy(dst + 2 * i, halves, 2 * n);
  });
}

void store_q8(const float* src, std::byte* dst, size_t dim) {
  __m256i most = _mm256_setzero_si256();
  each_run(dim, [&](size_t i, size_t n) {
    most = _mm256_max_epi32(most, magnitude_bits(load(src + i, n)));
  });
  const Q8Scale scale = q8_scale(largest_of(most));
  const size_t padded = (dim + 3) / 4 * 4;
  each_run(dim, [&](size_t i, size_t n) {
    const __m256i whole = q8_round(load(src + i, n), scale.inverse);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    alignas(16) int8_t bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes), _mm_packs_epi16(words, words));
    std::memcpy(dst + i, bytes, n == kLanes ? kLanes : padded - i);
  });
  std::memcpy(dst + padded, &scale.scale, sizeof(float));
}

}  // namespace

void fill_elementwise(KernelTable& table) {
  table.rms_norm = rms_norm;
  table.rope = rope;
  table.silu_mul = silu_mul;
  table.add = add;
  table.quantize_q8 = quantize_q8;
  table.argmax = argmax;
  table.kv_store[kKvAt<KvType::kF16>] = store_f16;
  table.kv_store[kKvAt<KvType::kBF16>] = store_bf16;
  table.kv_store[kKvAt<KvType::kQ8>] = store_q8;
}

}  // namespace phidias::avx2
