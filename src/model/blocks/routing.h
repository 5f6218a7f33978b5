// Which experts a row passes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace phidias {

// Whether a logit counts beside the pick's, which is the largest of those that are left.
inline bool within_band(float most, float logit, float band) {
  // 0/0 is NaN, which is not above the band: such a logit counts.
  return !((most - logit) / std::fmax(std::fabs(logit), most) > band);
}

// SparseMixer, as it is at inference: the largest logit is the first pick and the largest of the
// rest the second (the lowest index where several are equal). A pick's weight is its softmax among
// the logits that lie within the band: those with (m - z) / max(|z|, m) > band are left out, m
// being the pick's logit; for the second pick the first is left out, too. The weights do not sum
// to 1. Source: models-other.md of the reference, section 5; transformers' models/phimoe.
//   logits   at least 2; where a NaN is among them the picks are some two experts and the weights
//   NaN picks    two different indices
void route(std::span<const float> logits, float band, uint32_t picks[2], float weights[2]);

}  // namespace phidias
