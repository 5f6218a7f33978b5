// The attention half of a block.
#pragma once

#include "model/step_state.h"

namespace phidias {

// norm -> qkv -> rotation -> cache -> attention over the rows' key ranges -> output projection ->
// added to the stream.
void attention_block(const BlockArgs& args);

}  // namespace phidias
