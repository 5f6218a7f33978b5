#include "model/blocks/routing.h"

#include <cmath>
#include <limits>

#include "kernels/scalar/math.h"

namespace phidias {

void route(std::span<const float> logits, float band, uint32_t picks[2], float weights[2]) {
  constexpr size_t kNone = SIZE_MAX;
  size_t first = kNone;  // the pick before, left out of what follows
  for (size_t pick = 0; pick < 2; ++pick) {
    size_t best = first == 0 ? 1 : 0;
    for (size_t e = 0; e < logits.size(); ++e) {
      if (e != first && logits[e] > logits[best]) best = e;
    }
    const float most = logits[best];
    double sum = 0;
    for (size_t e = 0; e < logits.size(); ++e) {
      if (e == first) continue;
      if (within_band(most, logits[e], band))
        sum += exp_f64(static_cast<double>(logits[e]) - static_cast<double>(most));
    }
    picks[pick] = static_cast<uint32_t>(best);
    weights[pick] = static_cast<float>(1.0 / sum);
    first = best;
  }
}

}  // namespace phidias
