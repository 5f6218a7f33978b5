// The steps of explicit attention over a vector type, in doubles.
#pragma once

#include "kernels/attention.h"
#include "kernels/kv_types.h"
#include "kernels/order.h"

namespace phidias::generic {

// Scores of whole blocks of keys.
template <class V, size_t kBlocks>
void score_blocks(const float* query, const float* keys, size_t dim, float scale, float* scores) {
  constexpr size_t kHalves = kKvBlock / kDoubleLanes;
  constexpr size_t kWidth = kBlocks * kHalves;
  typename V::Doubles sums[kWidth];
#pragma GCC unroll 8
  for (size_t w = 0; w < kWidth; ++w) sums[w] = V::zero_f64();
  for (size_t d = 0; d < dim; ++d) {
    const auto q = V::set_f64(static_cast<double>(query[d]));
#pragma GCC unroll 8
    for (size_t w = 0; w < kWidth; ++w) {
      const float* key =
          keys + w / kHalves * kKvBlock * dim + d * kKvBlock + w % kHalves * kDoubleLanes;
      sums[w] = V::fma(V::widen(key), q, sums[w]);
    }
  }
  const auto scales = V::set_f64(static_cast<double>(scale));
#pragma GCC unroll 8
  for (size_t w = 0; w < kWidth; ++w) {
    V::narrow_partial(scores + w * kDoubleLanes, V::mul(sums[w], scales), kDoubleLanes);
  }
}

template <class V>
void attention_scores(const float* query, const float* keys, size_t dim, size_t begin, size_t end,
                      float scale, float* scores) {
  constexpr size_t kAtOnce = 4;  // chains enough to hide the latency of a multiply-add
  for (size_t block = begin / kKvBlock; block * kKvBlock < end;) {
    const size_t at = block * kKvBlock;
    const float* block_keys = keys + at * dim;
    if (at >= begin && at + kAtOnce * kKvBlock <= end) {
      score_blocks<V, kAtOnce>(query, block_keys, dim, scale, scores + at);
      block += kAtOnce;
      continue;
    }
    float some[kKvBlock];
    score_blocks<V, 1>(query, block_keys, dim, scale, some);
    const size_t stop = at + kKvBlock < end ? at + kKvBlock : end;
    for (size_t j = at > begin ? at : begin; j < stop; ++j) scores[j] = some[j - at];
    ++block;
  }
}

// Dimensions [d, d + kWidth * kDoubleLanes), the last register only `rest`.
template <class V, size_t kWidth>
void mix_part(const float* probabilities, const float* values, size_t dim, size_t count, size_t d,
              size_t rest, float* out) {
  typename V::Doubles sums[kWidth];
#pragma GCC unroll 8
  for (size_t w = 0; w < kWidth; ++w) sums[w] = V::zero_f64();
  for (size_t j = 0; j < count; ++j) {
    const float* value = values + j * dim + d;
    const auto weight = V::set_f64(static_cast<double>(probabilities[j]));
#pragma GCC unroll 8
    for (size_t w = 0; w + 1 < kWidth; ++w)
      sums[w] = V::fma(weight, V::widen(value + w * kDoubleLanes), sums[w]);
    const float* last = value + (kWidth - 1) * kDoubleLanes;
    sums[kWidth - 1] =
        V::fma(weight, rest == kDoubleLanes ? V::widen(last) : V::widen_partial(last, rest),
               sums[kWidth - 1]);
  }
#pragma GCC unroll 8
  for (size_t w = 0; w < kWidth; ++w) {
    V::narrow_partial(out + d + w * kDoubleLanes, sums[w], w + 1 < kWidth ? kDoubleLanes : rest);
  }
}

template <class V>
void attention_mix(const float* probabilities, const float* values, size_t dim, size_t count,
                   float* out) {
  constexpr size_t kWidth = 4;
  size_t d = 0;
  for (; d + kWidth * kDoubleLanes <= dim; d += kWidth * kDoubleLanes)
    mix_part<V, kWidth>(probabilities, values, dim, count, d, kDoubleLanes, out);
  for (; d < dim; d += kDoubleLanes) {
    const size_t rest = dim - d < kDoubleLanes ? dim - d : kDoubleLanes;
    mix_part<V, 1>(probabilities, values, dim, count, d, rest, out);
  }
}

}  // namespace phidias::generic
