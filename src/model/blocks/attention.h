// The attention half of a block.
#pragma once

#include "model/step_state.h"
#include "model/taps.h"

namespace phidias {

// norm -> qkv -> rotation -> cache -> attention over the rows' key ranges -> output projection ->
// added to the stream.
// Defined for NoTaps and StepTaps.
template <class Taps>
void attention_block(const BlockArgs& args, Taps& taps);

}  // namespace phidias
