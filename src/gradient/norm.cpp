#include "gradient/norm.h"

#include <cmath>

namespace phidias {
namespace {

// mean is 0 for the RMS norm, which has no such term.
void add_row(Norm norm, double epsilon, std::span<const float> weight, const float* x,
             const float* dy, float* dx) {
  const size_t n = weight.size();
  const auto count = static_cast<double>(n);
  double mean = 0;
  if (norm == Norm::kLayer) {
    for (size_t i = 0; i < n; ++i) mean += static_cast<double>(x[i]);
    mean /= count;
  }
  double squares = 0;
  double sum = 0;       // of g
  double products = 0;  // of g (x - mean)
  for (size_t i = 0; i < n; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    const double g = static_cast<double>(weight[i]) * static_cast<double>(dy[i]);
    squares += centred * centred;
    products += g * centred;
    sum += g;
  }
  const double inverse = 1.0 / std::sqrt(squares / count + epsilon);
  const double along = products * inverse * inverse / count;
  const double common = norm == Norm::kLayer ? sum / count : 0;
  for (size_t i = 0; i < n; ++i) {
    const double g = static_cast<double>(weight[i]) * static_cast<double>(dy[i]);
    const double centred = static_cast<double>(x[i]) - mean;
    dx[i] =
        static_cast<float>(static_cast<double>(dx[i]) + inverse * (g - common - centred * along));
  }
}

}  // namespace

void add_norm_gradient(RunContext& context, const ModelSpec& spec, std::span<const float> weight,
                       const float* x, const float* dy, size_t rows, float* dx) {
  const size_t n = weight.size();
  context.threads->run(rows, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      add_row(spec.norm, static_cast<double>(spec.norm_epsilon), weight, x + r * n, dy + r * n,
              dx + r * n);
    }
  });
}

}  // namespace phidias
