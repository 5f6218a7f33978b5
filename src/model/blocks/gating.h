// What lies between the two products of a feed-forward block.
#pragma once

#include "model/blocks/linear.h"
#include "model/spec.h"

namespace phidias {

// neurons [rows, F] of gate_up [rows, 2 F], as spec.gating says; `neurons` has its size already.
void activate(RunContext& context, const ModelSpec& spec, const float* gate_up,
              Activations& neurons);

// The same in two steps, with the same bits: activated gates into neurons [rows, F], and then their
// products with the other branch, in place.
void activate_gates(const KernelTable& kernels, const ModelSpec& spec, const float* gate_up,
                    Activations& neurons);
void multiply_branch(const ModelSpec& spec, const float* gate_up, Activations& neurons);

}  // namespace phidias
