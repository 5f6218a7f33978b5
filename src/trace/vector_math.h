// Sums over short vectors, in double.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace phidias {

template <typename A, typename B>
double dot(const A& a, const B& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

inline double norm_of(std::span<const float> x) { return std::sqrt(dot(x, x)); }

}  // namespace phidias
