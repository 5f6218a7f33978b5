// attention_exact over a vector type, in doubles.
#pragma once

#include "kernels/generic/exp.h"
#include "kernels/table.h"

namespace phidias::generic {

inline constexpr size_t kKeysAtOnce = 4;

template <class V>
struct ExactQuery {
  const AttentionArgs& args;
  const float* query;
  float* out;
  size_t first;
  size_t count;
  double* weights;  // [count], room for whole registers

  const float* vector(const std::byte* const* pages, size_t j) const {
    const size_t position = first + j;
    const std::byte* page = pages[position / args.page_positions];
    return reinterpret_cast<const float*>(page) + position % args.page_positions * args.head_dim;
  }

  // Scores of keys j to j + kKeys; returns the largest of them and `largest`.
  template <size_t kKeys>
  float score(size_t j, float largest) const {
    using Doubles = typename V::Doubles;
    const float* keys[kKeys];
    Doubles lanes[kKeys];
    for (size_t k = 0; k < kKeys; ++k) {
      keys[k] = vector(args.key_pages, j + k);
      lanes[k] = V::zero_f64();
    }
    const size_t dim = args.head_dim;
    size_t d = 0;
    for (; d + kDoubleLanes <= dim; d += kDoubleLanes) {
      const Doubles q = V::widen(query + d);
#pragma GCC unroll 4
      for (size_t k = 0; k < kKeys; ++k) lanes[k] = V::fma(q, V::widen(keys[k] + d), lanes[k]);
    }
    if (d < dim) {
      const Doubles q = V::widen_partial(query + d, dim - d);
#pragma GCC unroll 4
      for (size_t k = 0; k < kKeys; ++k) {
        lanes[k] = V::fma(q, V::widen_partial(keys[k] + d, dim - d), lanes[k]);
      }
    }
    for (size_t k = 0; k < kKeys; ++k) {
      const float value = static_cast<float>(V::fold(lanes[k]) * static_cast<double>(args.scale));
      if (value > largest) largest = value;
      weights[j + k] = static_cast<double>(value);
    }
    return largest;
  }

  // Weighted values of dimensions [d, d + kWidth * kDoubleLanes), the last register only `rest`.
  template <size_t kWidth>
  void mix(size_t d, size_t rest) const {
    using Doubles = typename V::Doubles;
    Doubles sums[kWidth];
    for (size_t w = 0; w < kWidth; ++w) sums[w] = V::zero_f64();
    for (size_t j = 0; j < count; ++j) {
      const float* value = vector(args.value_pages, j) + d;
      const Doubles weight = V::set_f64(weights[j]);
#pragma GCC unroll 4
      for (size_t w = 0; w + 1 < kWidth; ++w) {
        sums[w] = V::fma(weight, V::widen(value + w * kDoubleLanes), sums[w]);
      }
      const float* last = value + (kWidth - 1) * kDoubleLanes;
      sums[kWidth - 1] =
          V::fma(weight, rest == kDoubleLanes ? V::widen(last) : V::widen_partial(last, rest),
                 sums[kWidth - 1]);
    }
    for (size_t w = 0; w < kWidth; ++w) {
      V::narrow_partial(out + d + w * kDoubleLanes, sums[w], w + 1 < kWidth ? kDoubleLanes : rest);
    }
  }

  void run() const {
    using Doubles = typename V::Doubles;
    float largest = -__builtin_inff();
    size_t j = 0;
    for (; j + kKeysAtOnce <= count; j += kKeysAtOnce) largest = score<kKeysAtOnce>(j, largest);
    for (; j < count; ++j) largest = score<1>(j, largest);

    const size_t padded = (count + kDoubleLanes - 1) / kDoubleLanes * kDoubleLanes;
    for (j = count; j < padded; ++j) weights[j] = -__builtin_inf();
    Doubles lanes = V::zero_f64();
    for (j = 0; j < padded; j += kDoubleLanes) {
      const Doubles score = V::sub(V::load_f64(weights + j), V::set_f64(double{largest}));
      const Doubles weight = exp_doubles<V>(score);
      V::store_f64(weights + j, weight);
      lanes = V::add(lanes, weight);
    }
    const Doubles sum = V::set_f64(V::fold(lanes));
    for (j = 0; j < padded; j += kDoubleLanes) {
      V::store_f64(weights + j, V::as_float(V::div(V::load_f64(weights + j), sum)));
    }

    constexpr size_t kWidth = 4;
    const size_t dim = args.head_dim;
    size_t d = 0;
    for (; d + kWidth * kDoubleLanes <= dim; d += kWidth * kDoubleLanes) {
      mix<kWidth>(d, kDoubleLanes);
    }
    for (; d < dim; d += kDoubleLanes) mix<1>(d, dim - d < kDoubleLanes ? dim - d : kDoubleLanes);
  }
};

template <class V>
void attention_exact(const AttentionArgs& args) {
  for (size_t r = 0; r < args.rows; ++r) {
    for (size_t g = 0; g < args.group; ++g) {
      float* out = args.out + r * args.out_stride + g * args.head_dim;
      if (args.first_key[r] >= args.end_key[r]) {
        for (size_t d = 0; d < args.head_dim; ++d) out[d] = 0;
        continue;
      }
      const ExactQuery<V> query = {args,
                                   args.queries + r * args.query_stride + g * args.head_dim,
                                   out,
                                   args.first_key[r],
                                   args.end_key[r] - args.first_key[r],
                                   reinterpret_cast<double*>(args.scratch)};
      query.run();
    }
  }
}

}  // namespace phidias::generic
