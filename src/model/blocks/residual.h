// The two steps around every block: the norm before it and the addition after it.
#pragma once

#include <vector>

#include "model/step_state.h"

namespace phidias {

// state.normed = norm of the stream, with `weight` [D].
void norm_stream(const BlockArgs& args, const std::vector<float>& weight);

// state.stream += state.contribution
void add_contribution(const BlockArgs& args);

}  // namespace phidias
