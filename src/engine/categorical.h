// Draws under the key schedule of the entry `sample`: keys and uniforms as jax.random's
// partitionable Threefry, one stream over the whole grid of logits. The engine's own requests use
// sampler.h instead.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/random.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// One token per row: the largest of logit / temperature - log(-log(1 - u)), lowest id on ties,
// where u is the uniform number at index row * vocabulary + id of the key's stream. Temperature 0:
// the largest logit.
//
// With kRaw u is 0 once in 2^23 draws; its noise is infinite, and that token wins whatever its
// logit: at 32064 tokens, one step in 262. kHalfStep takes the middle of the step instead (2^-24 in
// place of 0) from the same bits, and is what to use; kRaw is there to reproduce the uniforms as
// published.
//
//   logits       [rows, vocabulary], finite or -infinity
//   temperature  finite, at least 0
//   position     of the tokens to be drawn; for messages only
// Errors: kInvalidArgument for a temperature out of range or logits that are not whole rows;
// kNonFinite as pick().
Result<std::vector<TokenId>> categorical(RandomKey key, std::span<const float> logits,
                                         size_t vocabulary, double temperature, uint32_t position,
                                         UniformMapping mapping = UniformMapping::kHalfStep);

}  // namespace phidias
