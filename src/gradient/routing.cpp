#include "gradient/routing.h"

#include <cmath>
#include <cstddef>

#include "model/blocks/routing.h"

namespace phidias {

void add_route_gradient(std::span<const float> logits, float band, const uint32_t picks[2],
                        const float weights_gradient[2], std::span<float> gradient) {
  for (size_t pick = 0; pick < 2; ++pick) {
    const size_t best = picks[pick];
    const float most = logits[best];
    const auto counts = [&](size_t e) {
      return (pick == 0 || e != picks[0]) && within_band(most, logits[e], band);
    };
    const auto share = [&](size_t e) {
      return std::exp(static_cast<double>(logits[e]) - static_cast<double>(most));
    };
    // With S the sum of the shares the weight is 1 / S: d weight / d logit[e] = -share / S^2, and
    // at the pick itself (S - 1) / S^2.
    double sum = 0;
    for (size_t e = 0; e < logits.size(); ++e) sum += counts(e) ? share(e) : 0;
    const double scale = static_cast<double>(weights_gradient[pick]) / (sum * sum);
    for (size_t e = 0; e < logits.size(); ++e) {
      if (!counts(e)) continue;
      gradient[e] += static_cast<float>(scale * (e == best ? sum - 1 : -share(e)));
    }
  }
}

}  // namespace phidias
