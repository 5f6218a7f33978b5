// The kernels of gradients over a vector type.
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/generic/exp.h"
#include "kernels/table.h"

namespace phidias::generic {

// kRows rows of x times `columns` columns in kVectors registers, the last of which is whole unless
// kPartial.
template <class V, size_t kVectors, bool kPartial, size_t kRows>
void add_transposed_tile(const TransposedArgs& args, size_t row, size_t column, size_t columns) {
  using Floats = typename V::Floats;
  constexpr size_t kWidth = kVectors * V::kLanes;
  const size_t rest = columns - (kVectors - 1) * V::kLanes;
  const float* weights = args.weights + column;
  const float* x = args.x + row * args.row_stride;
  Floats chains[kVectors * kRows];
#pragma GCC unroll 32
  for (size_t i = 0; i < kVectors * kRows; ++i) chains[i] = V::zero();
  for (size_t o = 0; o < args.outs; ++o) {
    Floats right[kRows];
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) right[r] = V::set(x[r * args.row_stride]);
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      const float* at = weights + v * V::kLanes;
      const Floats left = kPartial && v + 1 == kVectors ? V::load_partial(at, rest) : V::load(at);
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        chains[v * kRows + r] = V::fma(left, right[r], chains[v * kRows + r]);
      }
    }
    weights += args.weight_stride;
    x += args.out_stride;
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    float sums[kWidth];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) V::store(sums + v * V::kLanes, chains[v * kRows + r]);
    double* totals = args.totals + (row + r) * args.total_stride + column;
    const size_t count = kPartial ? columns : kWidth;
    size_t c = 0;
    if constexpr (kWidth >= kDoubleLanes) {
      for (; c + kDoubleLanes <= count; c += kDoubleLanes) {
        V::store_f64(totals + c, V::add(V::load_f64(totals + c), V::widen(sums + c)));
      }
    }
    if constexpr (kPartial) {
      for (; c < columns; ++c) totals[c] += static_cast<double>(sums[c]);
    }
  }
}

template <class V, size_t kVectors, bool kPartial>
void add_transposed_strip(const TransposedArgs& args, size_t column, size_t columns) {
  for (size_t row = 0; row < args.rows; row += V::kRightRows) {
    const size_t rows = args.rows - row < V::kRightRows ? args.rows - row : V::kRightRows;
    with_constant<V::kRightRows>(rows, [&](auto count) {
      add_transposed_tile<V, kVectors, kPartial, count.kValue>(args, row, column, columns);
    });
  }
}

// A strip of columns of all weight rows stays in the first-level cache while the rows of x go by.
template <class V>
void add_transposed(const TransposedArgs& args) {
  constexpr size_t kStrip = V::kLeftRows * V::kLanes;
  size_t column = 0;
  for (; column + kStrip <= args.cols; column += kStrip) {
    add_transposed_strip<V, V::kLeftRows, false>(args, column, kStrip);
  }
  if (column == args.cols) return;
  const size_t rest = args.cols - column;
  with_constant<V::kLeftRows>((rest + V::kLanes - 1) / V::kLanes, [&](auto vectors) {
    add_transposed_strip<V, vectors.kValue, true>(args, column, rest);
  });
}

template <class V>
void softmax(const float* scores, double* scratch, float* probabilities, size_t count) {
  using Doubles = typename V::Doubles;
  float largest = -__builtin_inff();
  for (size_t j = 0; j < count; ++j) {
    if (scores[j] > largest) largest = scores[j];
  }
  const Doubles shift = V::set_f64(double{largest});
  Doubles lanes = V::zero_f64();
  size_t j = 0;
  for (; j + kDoubleLanes <= count; j += kDoubleLanes) {
    const Doubles weight = exp_doubles<V>(V::sub(V::widen(scores + j), shift));
    V::store_f64(scratch + j, weight);
    lanes = V::add(lanes, weight);
  }
  if (j < count) {
    double last[kDoubleLanes];
    for (size_t l = 0; l < kDoubleLanes; ++l) {
      last[l] = j + l < count ? double{scores[j + l]} - double{largest} : -__builtin_inf();
    }
    const Doubles weight = exp_doubles<V>(V::load_f64(last));
    V::store_f64(scratch + j, weight);
    lanes = V::add(lanes, weight);
  }
  const Doubles sum = V::set_f64(V::fold(lanes));
  for (j = 0; j < count; j += kDoubleLanes) {
    V::narrow_partial(probabilities + j, V::div(V::load_f64(scratch + j), sum),
                      count - j < kDoubleLanes ? count - j : kDoubleLanes);
  }
}

template <class V>
void silu_gradient(const float* gate, float* gradient, size_t count) {
  using Floats = typename V::Floats;
  const Floats one = V::set(1.0F);
  const auto derivative = [&](Floats g) {
    const Floats exponential = exp_floats<V>(V::mul(g, V::set(-1.0F)));
    const Floats sigmoid = V::div(one, V::add(one, exponential));
    return V::mul(sigmoid, V::fma(g, V::sub(one, sigmoid), one));
  };
  size_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    V::store(gradient + i, V::mul(V::load(gradient + i), derivative(V::load(gate + i))));
  }
  if (i < count) {
    const size_t rest = count - i;
    V::store_partial(
        gradient + i,
        V::mul(V::load_partial(gradient + i, rest), derivative(V::load_partial(gate + i, rest))),
        rest);
  }
}

// One entrance for each instruction set's file.
template <class V>
void fill_gradient(KernelTable& table) {
  table.softmax = softmax<V>;
  table.add_transposed = add_transposed<V>;
  table.silu_gradient = silu_gradient<V>;
}

}  // namespace phidias::generic
