// The feed-forward part of a layer with experts.
#pragma once

#include "model/step_state.h"
#include "model/taps.h"

namespace phidias {

// state.contribution = for each row of state.normed the weighted sum of the two experts that its
// router picks. Rows are grouped by expert: each expert's weights are read once a step, and those
// of experts that no row picks are not touched. Defined for NoTaps and StepTaps.
template <class Taps>
void experts_contribution(const BlockArgs& args, Taps& taps);

}  // namespace phidias
