// The feed-forward half of a block.
#pragma once

#include "model/step_state.h"

namespace phidias {

// norm -> gate and up -> up * silu(gate) -> down -> added to the stream.
void ffn_block(const BlockArgs& args);

}  // namespace phidias
