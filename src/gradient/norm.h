// Gradients through the norms.
#pragma once

#include <cstddef>
#include <span>

#include "model/run_context.h"
#include "model/spec.h"

namespace phidias {

// dx[r, :] += the gradient that dy [rows, n] has at the input x [rows, n] of the model's norm; all
// rows dense. `weight` [n]. In double, rounded once.
//   rms    y = w x i with i = 1 / sqrt(mean(x^2) + e):  dx = i (g - x i^2 mean(g x)), g = w dy
//   layer  y = w (x - m) i + b, i = 1 / sqrt(var + e), h = (x - m) i:
//          dx = i (g - mean(g) - h mean(g h))
void add_norm_gradient(RunContext& context, const ModelSpec& spec, std::span<const float> weight,
                       const float* x, const float* dy, size_t rows, float* dx);

}  // namespace phidias
