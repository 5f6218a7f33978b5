#include "gradient/gating.h"

#include <algorithm>
#include <cmath>

#include "kernels/order.h"

namespace phidias {
namespace {

// Infinities pass the limit, as in the forward.
bool beyond(float x, float limit) { return std::isfinite(x) && x > limit; }

float clamped(float up, float limit) {
  return beyond(up, limit) ? limit : beyond(-up, limit) ? -limit : up;
}

// The derivative of g sigmoid(1.702 g).
float gelu_slope(float gate) {
  const double slope = static_cast<double>(kGegeluSlope);
  const double sigmoid = 1 / (1 + std::exp(-slope * static_cast<double>(gate)));
  return static_cast<float>(sigmoid * (1 + slope * static_cast<double>(gate) * (1 - sigmoid)));
}

}  // namespace

void activation_gradient(const ModelSpec& spec, const float* gate_up, const float* neurons_gradient,
                         float* gradient) {
  const size_t width = spec.ffn_width;
  if (spec.gating == Gating::kGegelu) {
    for (size_t i = 0; i < width; ++i) {
      gradient[i] = neurons_gradient[i] * (clamped(gate_up[2 * i + 1], spec.gating_limit) + 1.0F);
    }
    return;
  }
  for (size_t i = 0; i < width; ++i) gradient[i] = neurons_gradient[i] * gate_up[width + i];
}

void branches_gradient(const KernelTable& kernels, const ModelSpec& spec, const float* gate_up,
                       const float* activation, const float* activation_gradient,
                       const float* neurons_gradient, float* gradient) {
  const size_t width = spec.ffn_width;
  if (spec.gating == Gating::kGegelu) {
    const float limit = spec.gating_limit;
    for (size_t i = 0; i < width; ++i) {
      const float gate = gate_up[2 * i];
      const float up = gate_up[2 * i + 1];
      gradient[2 * i] = beyond(gate, limit) ? 0 : activation_gradient[i] * gelu_slope(gate);
      gradient[2 * i + 1] = beyond(std::abs(up), limit) ? 0 : neurons_gradient[i] * activation[i];
    }
    return;
  }
  std::copy_n(activation_gradient, width, gradient);
  kernels.silu_gradient(gate_up, gradient, width);
  for (size_t i = 0; i < width; ++i) gradient[width + i] = neurons_gradient[i] * activation[i];
}

}  // namespace phidias
