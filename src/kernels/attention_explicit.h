// What explicit attention adds to the kernels that it is made of (KernelTable: attention_scores,
// softmax, attention_mix; together they give attention_exact's bits).
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/table.h"

namespace phidias {

// The score of a key that a query does not see: the lowest finite number, so that a product with
// zero stays a number.
inline constexpr float kHiddenScore = std::numeric_limits<float>::lowest();

// Softmax of `count` scores; hidden ones get exactly 0. Where all are hidden, all are 0.
//   scratch   as KernelTable::softmax wants it
void attention_softmax(const KernelTable& kernels, const float* scores, size_t count,
                       double* scratch, float* probabilities);

}  // namespace phidias
