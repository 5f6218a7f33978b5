// attention_exact over a vector type, in doubles.
#pragma once

#include "kernels/attention.h"
#include "kernels/generic/attention_steps.h"
#include "kernels/generic/exp.h"
#include "kernels/visible.h"

namespace phidias::generic {

template <class V>
struct ExactQuery {
  using Doubles = typename V::Doubles;
  static constexpr size_t kBlocksAtOnce = 2;

  const AttentionArgs& args;
  const float* query;
  float* out;
  const uint64_t* visible;
  size_t first;
  size_t count;
  double* weights;  // [count], room for whole registers

  // Calls run(page, first slot, end slot) for all that the query sees, in order.
  template <class F>
  [[gnu::always_inline]] void each_run(F&& run) const {
    for_each_page_run(visible, args.visible_positions, args.page_positions, first, first + count,
                      run);
  }

  // Scores of slots [from, to) of a page to weights; returns the largest of them and `largest`.
  float score_run(size_t page, size_t from, size_t to, float largest) const {
    const float* keys = reinterpret_cast<const float*>(args.key_pages[page]);
    const size_t page_begin = page * args.page_positions;
    for (size_t block = from / kKvBlock; block * kKvBlock < to; block += kBlocksAtOnce) {
      float scores[kBlocksAtOnce * kKvBlock];
      const float* at = keys + block * kKvBlock * args.head_dim;
      if ((block + 1) * kKvBlock < to) {
        score_blocks<V, kBlocksAtOnce>(query, at, args.head_dim, args.scale, scores);
      } else {
        score_blocks<V, 1>(query, at, args.head_dim, args.scale, scores);
      }
      const size_t begin = block * kKvBlock;
      const size_t stop =
          begin + kBlocksAtOnce * kKvBlock < to ? begin + kBlocksAtOnce * kKvBlock : to;
      for (size_t slot = from > begin ? from : begin; slot < stop; ++slot) {
        const float value = scores[slot - begin];
        if (value > largest) largest = value;
        weights[page_begin + slot - first] = static_cast<double>(value);
      }
    }
    return largest;
  }

  // Weighted values of dimensions [d, d + kWidth * kDoubleLanes), the last register only `rest`.
  template <size_t kWidth>
  void mix(size_t d, size_t rest) const {
    const size_t dim = args.head_dim;
    Doubles sums[kWidth];
    for (size_t w = 0; w < kWidth; ++w) sums[w] = V::zero_f64();
    each_run([&](size_t page, size_t from, size_t to) {
      const float* values = reinterpret_cast<const float*>(args.value_pages[page]) + d;
      const size_t page_begin = page * args.page_positions;
      for (size_t slot = from; slot < to; ++slot) {
        const float* value = values + slot * dim;
        const Doubles weight = V::set_f64(weights[page_begin + slot - first]);
#pragma GCC unroll 4
        for (size_t w = 0; w + 1 < kWidth; ++w) {
          sums[w] = V::fma(weight, V::widen(value + w * kDoubleLanes), sums[w]);
        }
        const float* last = value + (kWidth - 1) * kDoubleLanes;
        sums[kWidth - 1] =
            V::fma(weight, rest == kDoubleLanes ? V::widen(last) : V::widen_partial(last, rest),
                   sums[kWidth - 1]);
      }
    });
    for (size_t w = 0; w < kWidth; ++w) {
      V::narrow_partial(out + d + w * kDoubleLanes, sums[w], w + 1 < kWidth ? kDoubleLanes : rest);
    }
  }

  // False if the query sees nothing.
  bool run() const {
    float largest = -__builtin_inff();
    const size_t padded = (count + kDoubleLanes - 1) / kDoubleLanes * kDoubleLanes;
    for (size_t j = 0; j < padded; ++j) weights[j] = -__builtin_inf();
    bool any = false;
    each_run([&](size_t page, size_t from, size_t to) {
      any = true;
      largest = score_run(page, from, to, largest);
    });
    if (!any) return false;

    Doubles lanes = V::zero_f64();
    for (size_t j = 0; j < padded; j += kDoubleLanes) {
      const Doubles score = V::sub(V::load_f64(weights + j), V::set_f64(double{largest}));
      const Doubles weight = exp_doubles<V>(score);
      V::store_f64(weights + j, weight);
      lanes = V::add(lanes, weight);
    }
    const Doubles sum = V::set_f64(V::fold(lanes));
    for (size_t j = 0; j < padded; j += kDoubleLanes) {
      V::store_f64(weights + j, V::as_float(V::div(V::load_f64(weights + j), sum)));
    }

    constexpr size_t kWidth = 4;
    const size_t dim = args.head_dim;
    size_t d = 0;
    for (; d + kWidth * kDoubleLanes <= dim; d += kWidth * kDoubleLanes) {
      mix<kWidth>(d, kDoubleLanes);
    }
    for (; d < dim; d += kDoubleLanes) mix<1>(d, dim - d < kDoubleLanes ? dim - d : kDoubleLanes);
    return true;
  }
};

template <class V>
void attention_exact(const AttentionArgs& args) {
  for (size_t r = 0; r < args.rows; ++r) {
    for (size_t g = 0; g < args.group; ++g) {
      const size_t first = args.first_key[r];
      const size_t end = args.end_key[r];
      float* out = args.out + r * args.out_stride + g * args.head_dim;
      const ExactQuery<V> query = {
          args,
          args.queries + r * args.query_stride + g * args.head_dim,
          out,
          args.visible == nullptr ? nullptr : args.visible[r * args.group + g],
          first,
          first < end ? end - first : 0,
          reinterpret_cast<double*>(args.scratch)};
      if (query.run()) continue;
      for (size_t d = 0; d < args.head_dim; ++d) out[d] = 0;
    }
  }
}

}  // namespace phidias::generic
