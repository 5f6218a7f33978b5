#include <cmath>

#include "kernels/scalar/math.h"
#include "kernels/scalar/scalar.h"

namespace phidias::scalar {
namespace {

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y,
                size_t n) {
  double lanes[kDoubleLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kDoubleLanes] += static_cast<double>(x[i]);
  const double mean = fold(lanes) / static_cast<double>(n);
  double squares[kDoubleLanes] = {};
  for (size_t i = 0; i < n; ++i) {
    const double difference = static_cast<double>(x[i]) - mean;
    double& lane = squares[i % kDoubleLanes];
    lane = std::fma(difference, difference, lane);
  }
  const double variance = fold(squares) / static_cast<double>(n);
  const float inverse = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(eps)));
  const float middle = static_cast<float>(mean);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] - middle) * inverse * weight[i] + bias[i];
}

}  // namespace

void fill_layer_norm(KernelTable& table) { table.layer_norm = layer_norm; }

}  // namespace phidias::scalar
