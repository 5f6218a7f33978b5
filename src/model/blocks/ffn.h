// The feed-forward half of a block.
#pragma once

#include "model/step_state.h"
#include "model/taps.h"

namespace phidias {

// norm -> gate and up -> gating -> down (or, with experts, the same in each that a row passes) ->
// added to the stream.
// Defined for NoTaps and StepTaps.
template <class Taps>
void ffn_block(const BlockArgs& args, Taps& taps);

}  // namespace phidias
