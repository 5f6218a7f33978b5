// The gradient through what lies between the two products of a feed-forward block, row by row.
#pragma once

#include "kernels/table.h"
#include "model/spec.h"

namespace phidias {

// Of the activated gates [F]: `neurons_gradient` [F] times the other branch of gate_up [2 F].
void activation_gradient(const ModelSpec& spec, const float* gate_up, const float* neurons_gradient,
                         float* gradient);

// Of gate_up [2 F], laid out as it is, out of the gradients of the activated gates and of the
// neurons, [F] each, and the activated gates themselves. Clamped branches have none.
void branches_gradient(const KernelTable& kernels, const ModelSpec& spec, const float* gate_up,
                       const float* activation, const float* activation_gradient,
                       const float* neurons_gradient, float* gradient);

}  // namespace phidias
