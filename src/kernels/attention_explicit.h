// Attention in three steps, for whoever looks at what lies between them. The order of arithmetic is
// that of KernelTable::attention_exact, step for step: together they give its bits.
#pragma once

#include <cstddef>
#include <limits>

namespace phidias {

// The score of a key that a query does not see: the lowest finite number, so that a product with
// zero stays a number.
inline constexpr float kHiddenScore = std::numeric_limits<float>::lowest();

// scores[j] = dot(query, keys[j]) * scale for `count` keys [count, dim].
void attention_scores(const float* query, const float* keys, size_t dim, size_t count, float scale,
                      float* scores);

// Softmax of `count` scores; hidden ones get exactly 0. Where all are hidden, all are 0.
//   weights   [count], scratch
void attention_softmax(const float* scores, size_t count, double* weights, float* probabilities);

// out[d] = sum of probabilities[j] * values[j, d] over `count` values [count, dim], ascending.
void attention_mix(const float* probabilities, const float* values, size_t dim, size_t count,
                   float* out);

}  // namespace phidias
