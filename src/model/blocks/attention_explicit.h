// Attention of one run with its scores and probabilities laid out, for taps that see or change
// them.
#pragma once

#include "model/step_state.h"

namespace phidias {

// Queries are in state.qkv, keys and values in the cache. The run's taps visit the scores, then the
// probabilities; where they say that they change them, the heads' outputs are written to
// state.heads, else nothing is. In exact numerics these are attention_exact's bits.
//   run        carries taps
//   first_row  of the run, in the step
void attention_explicit(const BlockArgs& args, const BatchRun& run, size_t first_row);

}  // namespace phidias
