#include <cmath>
#include <limits>

#include "kernels/scalar/math.h"
#include "kernels/scalar/scalar.h"

namespace phidias::scalar {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Infinities pass a limit; NaN fails every comparison and stays.
float clamp_above(float x, float limit) { return x > limit && x < kInfinity ? limit : x; }
float clamp_below(float x, float limit) { return x < limit && x > -kInfinity ? limit : x; }

// In this form nothing overflows, and it is exactly 0 at -infinity.
float sigmoid(float x) {
  const float e = exp_f32(-std::fabs(x));
  return (x >= 0 ? 1.0F : e) / (1.0F + e);
}

void gegelu(const float* branches, float limit, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float gate = clamp_above(branches[2 * i], limit);
    const float up = clamp_below(clamp_above(branches[2 * i + 1], limit), -limit);
    y[i] = gate * sigmoid(kGegeluSlope * gate) * (up + 1.0F);
  }
}

}  // namespace

void fill_gegelu(KernelTable& table) { table.gegelu = gegelu; }

}  // namespace phidias::scalar
