#include <cstring>

#include "kernels/avx2/vec.h"
#include "kernels/generic/exp.h"
#include "kernels/isa.h"

namespace phidias::avx2 {
namespace {

[[gnu::always_inline]] inline __m256 select(__m256 where, __m256 chosen, __m256 otherwise) {
  return _mm256_blendv_ps(otherwise, chosen, where);
}

// Infinities pass a limit; NaN fails every comparison and stays.
[[gnu::always_inline]] inline __m256 clamp_above(__m256 x, __m256 limit) {
  const __m256 infinity = Vec::set(__builtin_inff());
  const __m256 beyond =
      _mm256_and_ps(_mm256_cmp_ps(x, limit, _CMP_GT_OQ), _mm256_cmp_ps(x, infinity, _CMP_LT_OQ));
  return select(beyond, limit, x);
}
[[gnu::always_inline]] inline __m256 clamp_below(__m256 x, __m256 limit) {
  const __m256 infinity = Vec::set(-__builtin_inff());
  const __m256 beyond =
      _mm256_and_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), _mm256_cmp_ps(x, infinity, _CMP_GT_OQ));
  return select(beyond, limit, x);
}

// 8 results from 16 floats, gate and up in turn.
[[gnu::always_inline]] inline __m256 activate(const float* branches, __m256 limit,
                                              __m256 lower_limit) {
  const __m256 first = Vec::load(branches);
  const __m256 second = Vec::load(branches + 8);
  // The shuffles work within halves; the permutation puts the pairs in order.
  const auto in_order = [](__m256 x) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xD8));
  };
  const __m256 one = Vec::set(1.0F);
  const __m256 gate = clamp_above(in_order(_mm256_shuffle_ps(first, second, 0x88)), limit);
  const __m256 up = clamp_below(
      clamp_above(in_order(_mm256_shuffle_ps(first, second, 0xDD)), limit), lower_limit);
  const __m256 x = Vec::mul(Vec::set(kGegeluSlope), gate);
  const __m256 e = generic::exp_floats<Vec>(_mm256_or_ps(x, Vec::set(-0.0F)));
  const __m256 positive = _mm256_cmp_ps(x, Vec::zero(), _CMP_GE_OQ);
  const __m256 sigmoid = Vec::div(select(positive, one, e), Vec::add(one, e));
  return Vec::mul(Vec::mul(gate, sigmoid), Vec::add(up, one));
}

void gegelu(const float* branches, float limit, float* y, size_t n) {
  const __m256 upper = Vec::set(limit);
  const __m256 lower = Vec::set(-limit);
  size_t i = 0;
  for (; i + Vec::kLanes <= n; i += Vec::kLanes) {
    Vec::store(y + i, activate(branches + 2 * i, upper, lower));
  }
  if (i < n) {
    float rest[2 * Vec::kLanes] = {};
    std::memcpy(rest, branches + 2 * i, 2 * (n - i) * sizeof(float));
    Vec::store_partial(y + i, activate(rest, upper, lower), n - i);
  }
}

}  // namespace

void fill_gegelu(KernelTable& table) { table.gegelu = gegelu; }

}  // namespace phidias::avx2
