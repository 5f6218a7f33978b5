#include "kernels/attention_explicit.h"

#include <cmath>

#include "kernels/order.h"
#include "kernels/scalar/math.h"
#include "kernels/table.h"

namespace phidias {

void attention_scores(const float* query, const float* keys, size_t dim, size_t count, float scale,
                      float* scores) {
  for (size_t j = 0; j < count; ++j) {
    const float* key = keys + j * dim;
    double sum = 0;
    for (size_t d = 0; d < dim; ++d) {
      sum = std::fma(static_cast<double>(key[d]), static_cast<double>(query[d]), sum);
    }
    scores[j] = static_cast<float>(sum * static_cast<double>(scale));
  }
}

void attention_softmax(const float* scores, size_t count, double* weights, float* probabilities) {
  float largest = kHiddenScore;
  for (size_t j = 0; j < count; ++j) {
    if (scores[j] > largest) largest = scores[j];
  }
  if (largest == kHiddenScore) {
    for (size_t j = 0; j < count; ++j) probabilities[j] = 0;
    return;
  }
  double lanes[kDoubleLanes] = {};
  for (size_t j = 0; j < count; ++j) {
    weights[j] = exp_f64(static_cast<double>(scores[j]) - static_cast<double>(largest));
    lanes[j % kDoubleLanes] += weights[j];
  }
  const double sum = fold(lanes);
  for (size_t j = 0; j < count; ++j) probabilities[j] = static_cast<float>(weights[j] / sum);
}

void attention_mix(const float* probabilities, const float* values, size_t dim, size_t count,
                   float* out) {
  double mixed[kMaxHeadDim] = {};
  for (size_t j = 0; j < count; ++j) {
    const float* value = values + j * dim;
    const double probability = probabilities[j];
    for (size_t d = 0; d < dim; ++d) {
      mixed[d] = std::fma(probability, static_cast<double>(value[d]), mixed[d]);
    }
  }
  for (size_t d = 0; d < dim; ++d) out[d] = static_cast<float>(mixed[d]);
}

}  // namespace phidias
