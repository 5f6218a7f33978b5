// FloatExp and DoubleExp of order.h, one value at a time.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/order.h"

namespace phidias {

inline float exp_f32(float x) {
  using E = FloatExp;
  if (x < E::kLowest) return 0;
  const float clamped = x > E::kHighest ? E::kHighest : x;
  const float shifted = std::fma(clamped, E::kLog2e, E::kRound);
  const float n = shifted - E::kRound;
  float r = std::fma(n, -E::kLn2High, clamped);
  r = std::fma(n, -E::kLn2Low, r);
  float q = E::kPolynomial[0];
  for (size_t i = 1; i < E::kTerms; ++i) q = std::fma(q, r, E::kPolynomial[i]);
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + 0x3F800000U);
  return (std::fma(q, r * r, r) + 1.0F) * power;
}

inline double exp_f64(double x) {
  using E = DoubleExp;
  if (x < E::kLowest) return 0;
  const double shifted = std::fma(x, E::kLog2e, E::kRound);
  const double n = shifted - E::kRound;
  double r = std::fma(n, -E::kLn2High, x);
  r = std::fma(n, -E::kLn2Low, r);
  double p = E::kPolynomial[0];
  for (size_t i = 1; i < E::kTerms; ++i) p = std::fma(p, r, E::kPolynomial[i]);
  const double power =
      std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) << 52) + 0x3FF0000000000000U);
  return p * power;
}

// Folds lanes in halves: l takes l + n / 2, and so on.
template <typename T, size_t kCount>
T fold(T (&lanes)[kCount]) {
  for (size_t half = kCount / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace phidias
