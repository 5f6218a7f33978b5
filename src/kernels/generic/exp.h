// FloatExp and DoubleExp of order.h over a vector type, step for step as in scalar/math.h.
#pragma once

#include "kernels/order.h"

namespace phidias::generic {

template <class V>
[[gnu::always_inline]] inline typename V::Floats exp_floats(typename V::Floats x) {
  using E = FloatExp;
  using Floats = typename V::Floats;
  const Floats clamped = V::min(V::set(E::kHighest), x);  // in this order NaN stays
  const Floats shifted = V::fma(clamped, V::set(E::kLog2e), V::set(E::kRound));
  const Floats n = V::sub(shifted, V::set(E::kRound));
  Floats r = V::fma(n, V::set(-E::kLn2High), clamped);
  r = V::fma(n, V::set(-E::kLn2Low), r);
  Floats q = V::set(E::kPolynomial[0]);
#pragma GCC unroll 8
  for (size_t i = 1; i < E::kTerms; ++i) q = V::fma(q, r, V::set(E::kPolynomial[i]));
  const Floats near_one = V::add(V::fma(q, V::mul(r, r), r), V::set(1.0F));
  return V::zero_if_less(x, V::set(E::kLowest), V::mul(near_one, V::power_of_shifted(shifted)));
}

template <class V>
[[gnu::always_inline]] inline typename V::Doubles exp_doubles(typename V::Doubles x) {
  using E = DoubleExp;
  using Doubles = typename V::Doubles;
  const Doubles shifted = V::fma(x, V::set_f64(E::kLog2e), V::set_f64(E::kRound));
  const Doubles n = V::sub(shifted, V::set_f64(E::kRound));
  Doubles r = V::fma(n, V::set_f64(-E::kLn2High), x);
  r = V::fma(n, V::set_f64(-E::kLn2Low), r);
  Doubles p = V::set_f64(E::kPolynomial[0]);
#pragma GCC unroll 16
  for (size_t i = 1; i < E::kTerms; ++i) p = V::fma(p, r, V::set_f64(E::kPolynomial[i]));
  return V::zero_if_less(x, V::set_f64(E::kLowest), V::mul(p, V::power_of_shifted(shifted)));
}

}  // namespace phidias::generic
