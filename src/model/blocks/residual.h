// The two steps around every block: the norm before it and the addition after it.
#pragma once

#include <vector>

#include "model/step_state.h"

namespace phidias {

// y = the model's norm of one row x [D]; `bias` is empty where the norm has none.
void normalize(const ModelSpec& spec, const KernelTable& kernels, const float* x,
               const std::vector<float>& weight, const std::vector<float>& bias, float* y);

// state.normed = norm of the stream, with `weight` and `bias` [D].
void norm_stream(const BlockArgs& args, const std::vector<float>& weight,
                 const std::vector<float>& bias);

// state.stream += state.contribution
void add_contribution(const BlockArgs& args);

}  // namespace phidias
