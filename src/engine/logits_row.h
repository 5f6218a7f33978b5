// One pass over a row of logits that everything after it relies on: they are numbers, and one of
// them is finite.
#pragma once

#include <cstdint>
#include <span>

#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// The id of the largest logit, the lowest one on ties.
// Errors: kNonFinite, naming token and position, for NaN or +infinity anywhere or -infinity
// everywhere;
//   kInvalidArgument for an empty row.
//   position   of the token that the row predicts; for the message only
Result<TokenId> largest_logit(std::span<const float> logits, uint32_t position);

}  // namespace phidias
