// Elementwise kernels over a vector type, in the order of scalar/elementwise.cpp.
#pragma once

#include "kernels/generic/exp.h"
#include "kernels/generic/runs.h"
#include "kernels/order.h"
#include "kernels/q8_scale.h"
#include "kernels/table.h"

namespace phidias::generic {

// The sum of squares in double.
template <class V>
[[gnu::always_inline]] inline double sum_of_squares(const float* x, size_t count) {
  typename V::Doubles lanes = V::zero_f64();
  size_t i = 0;
  for (; i + kDoubleLanes <= count; i += kDoubleLanes) {
    const typename V::Doubles value = V::widen(x + i);
    lanes = V::fma(value, value, lanes);
  }
  if (i < count) {
    const typename V::Doubles value = V::widen_partial(x + i, count - i);
    lanes = V::fma(value, value, lanes);
  }
  return V::fold(lanes);
}

template <class V>
void rms_norm(const float* x, const float* weight, float eps, float* y, size_t count) {
  const double mean = sum_of_squares<V>(x, count) / static_cast<double>(count);
  const double root = V::root(mean + static_cast<double>(eps));
  const typename V::Floats inverse = V::set(static_cast<float>(1.0 / root));
  each_run<V>(count, [&](size_t i, size_t n) {
    store<V>(y + i, V::mul(load<V>(weight + i, n), V::mul(load<V>(x + i, n), inverse)), n);
  });
}

template <class V>
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y,
                size_t count) {
  using Doubles = typename V::Doubles;
  const size_t whole = count / kDoubleLanes * kDoubleLanes;
  Doubles sums = V::zero_f64();
  for (size_t i = 0; i < whole; i += kDoubleLanes) sums = V::add(sums, V::widen(x + i));
  if (whole < count) sums = V::add(sums, V::widen_partial(x + whole, count - whole));
  const double mean = V::fold(sums) / static_cast<double>(count);

  Doubles squares = V::zero_f64();
  for (size_t i = 0; i < whole; i += kDoubleLanes) {
    const Doubles difference = V::sub(V::widen(x + i), V::set_f64(mean));
    squares = V::fma(difference, difference, squares);
  }
  if (whole < count) {
    // One by one: lanes beyond the row must not see its mean.
    double lanes[kDoubleLanes];
    V::store_f64(lanes, squares);
    for (size_t i = whole; i < count; ++i) {
      const double difference = static_cast<double>(x[i]) - mean;
      lanes[i - whole] = __builtin_fma(difference, difference, lanes[i - whole]);
    }
    squares = V::load_f64(lanes);
  }
  const double variance = V::fold(squares) / static_cast<double>(count);
  const double root = V::root(variance + static_cast<double>(eps));
  const typename V::Floats inverse = V::set(static_cast<float>(1.0 / root));
  const typename V::Floats middle = V::set(static_cast<float>(mean));
  each_run<V>(count, [&](size_t i, size_t n) {
    const typename V::Floats value = V::mul(V::sub(load<V>(x + i, n), middle), inverse);
    store<V>(y + i, V::add(V::mul(value, load<V>(weight + i, n)), load<V>(bias + i, n)), n);
  });
}

template <class V>
void rope(float* head, const float* cosine, const float* sine, size_t half) {
  using Floats = typename V::Floats;
  each_run<V>(half, [&](size_t i, size_t n) {
    const Floats a = load<V>(head + i, n);
    const Floats b = load<V>(head + half + i, n);
    const Floats c = load<V>(cosine + i, n);
    const Floats s = load<V>(sine + i, n);
    store<V>(head + i, V::sub(V::mul(a, c), V::mul(b, s)), n);
    store<V>(head + half + i, V::add(V::mul(b, c), V::mul(a, s)), n);
  });
}

template <class V>
void silu_mul(const float* gate, const float* up, float* y, size_t count) {
  using Floats = typename V::Floats;
  each_run<V>(count, [&](size_t i, size_t n) {
    const Floats g = load<V>(gate + i, n);
    const Floats activated = V::div(g, V::add(V::set(1.0F), exp_floats<V>(V::negative(g))));
    store<V>(y + i, V::mul(load<V>(up + i, n), activated), n);
  });
}

template <class V>
void add(float* x, const float* y, size_t count) {
  each_run<V>(count, [&](size_t i, size_t n) {
    store<V>(x + i, V::add(load<V>(x + i, n), load<V>(y + i, n)), n);
  });
}

// Group is a group of kQuantGroup floats in registers:
//   Group(x)                   reads it
//   largest()                  its largest magnitude, NaN above all
//   round(inverse, values)     its int8 values, which it keeps; returns their sum
//   leave(scale)               becomes what the values times scale have left over
template <class V, class Group>
void quantize_q8(const float* x, const QuantizedRows& row, size_t count) {
  const double mean = sum_of_squares<V>(x, count) / static_cast<double>(count);
  const double limit = kSecondTermRms * V::root(mean);
  const auto term = [](Group& group, float largest, int8_t* values, float* scale, float* sum) {
    *scale = q8_scale(largest);
    *sum = *scale * static_cast<float>(group.round(q8_inverse(*scale), values));
  };
  for (size_t g = 0; g < count / kQuantGroup; ++g) {
    Group group(x + g * kQuantGroup);
    const float largest = group.largest();
    term(group, largest, row.values + g * kQuantGroup, row.scales + g, row.sums + g);
    row.second_scales[g] = 0;
    if (static_cast<double>(largest) > limit) {
      group.leave(row.scales[g]);
      term(group, group.largest(), row.second_values + g * kQuantGroup, row.second_scales + g,
           row.second_sums + g);
    }
  }
}

}  // namespace phidias::generic
