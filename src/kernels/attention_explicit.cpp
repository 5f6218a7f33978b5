#include "kernels/attention_explicit.h"

#include <algorithm>

namespace phidias {

void attention_softmax(const KernelTable& kernels, const float* scores, size_t count,
                       double* scratch, float* probabilities) {
  const bool hidden =
      std::all_of(scores, scores + count, [](float score) { return score <= kHiddenScore; });
  if (hidden) {
    std::fill(probabilities, probabilities + count, 0.0F);
  } else {
    kernels.softmax(scores, scratch, probabilities, count);
  }
}

}  // namespace phidias
