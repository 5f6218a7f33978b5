#include <cmath>

#include "kernels/scalar/math.h"
#include "kernels/scalar/scalar.h"

namespace phidias::scalar {
namespace {

void add_transposed(const TransposedArgs& args) {
  for (size_t r = 0; r < args.rows; ++r) {
    for (size_t c = 0; c < args.cols; ++c) {
      const float* x = args.x + r * args.row_stride;
      float chain = 0;
      for (size_t o = 0; o < args.outs; ++o) {
        chain = std::fma(args.weights[o * args.weight_stride + c], x[o * args.out_stride], chain);
      }
      args.totals[r * args.total_stride + c] += static_cast<double>(chain);
    }
  }
}

void softmax(const float* scores, double* scratch, float* probabilities, size_t count) {
  float largest = -INFINITY;
  for (size_t j = 0; j < count; ++j) {
    if (scores[j] > largest) largest = scores[j];
  }
  double lanes[kDoubleLanes] = {};
  for (size_t j = 0; j < count; ++j) {
    scratch[j] = exp_f64(static_cast<double>(scores[j]) - static_cast<double>(largest));
    lanes[j % kDoubleLanes] += scratch[j];
  }
  const double sum = fold(lanes);
  for (size_t j = 0; j < count; ++j) probabilities[j] = static_cast<float>(scratch[j] / sum);
}

void silu_gradient(const float* gate, float* gradient, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float sigmoid = 1.0F / (1.0F + exp_f32(-gate[i]));
    gradient[i] *= sigmoid * std::fma(gate[i], 1.0F - sigmoid, 1.0F);
  }
}

}  // namespace

void fill_gradient(KernelTable& table) {
  table.softmax = softmax;
  table.add_transposed = add_transposed;
  table.silu_gradient = silu_gradient;
}

}  // namespace phidias::scalar
