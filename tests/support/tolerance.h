// How far a result in floats may lie from the exact one. u = 2^-24 is the unit roundoff of float;
// gamma(n) = n u / (1 - n u) bounds n roundings in a row (Higham, Accuracy and Stability of
// Numerical Algorithms, section 3.1).
#pragma once

#include <cmath>
#include <cstddef>

namespace phidias::test {

inline constexpr double kUnitRoundoff = 0x1p-24;

inline double gamma(double roundings) {
  return roundings * kUnitRoundoff / (1 - roundings * kUnitRoundoff);
}

// matmul_f32: a lane is a chain of kChunkColumns / kFloatLanes = 32 fused steps (one rounding
// each), then four foldings; the sum of chunks in double and the last rounding add one more each,
// generously. |error| <= gamma(38) * sum |x w|.
inline double dot_f32_tolerance(double sum_of_magnitudes) { return gamma(38) * sum_of_magnitudes; }

// matmul_q8 against the same integers and scales in double: the integer sums are exact. A term of a
// group, of which there may be two, costs a rounding in the product of scales and one or two in the
// chain of all groups: what is added first passes at most 1 + 4 groups roundings.
inline double dot_q8_tolerance(double sum_of_magnitudes, size_t groups) {
  return gamma(1 + 4 * static_cast<double>(groups)) * sum_of_magnitudes;
}

// Online softmax against double. A score of dim columns is wrong by gamma(dim + 2) times its
// sum of magnitudes, scaled; exp turns that absolute error of the scores into a relative one of the
// weights, and adds 2 ulp. Weights are summed, shrunk once a block (two roundings, and another exp
// of a rounded difference) and multiplied with values in a chain over the keys. `magnitude` is the
// largest |value|, `score_magnitude` the largest scale * sum |q k|.
inline double attention_tolerance(double magnitude, double score_magnitude, size_t dim, size_t keys,
                                  size_t blocks) {
  const double score = 2 * gamma(static_cast<double>(dim) + 4) * score_magnitude;
  const double rest = gamma(8 + static_cast<double>(keys) + 8 * static_cast<double>(blocks));
  return 2 * magnitude * (std::expm1(score) + rest);
}

}  // namespace phidias::test
