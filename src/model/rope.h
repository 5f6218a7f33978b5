// Rotary position tables, and which of LongRoPE's factor lists holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"
#include "phidias/options.h"

namespace phidias {

// The list a row is rotated with; kPlain where the model has one list only.
enum class RotaryFactors : uint8_t { kPlain = 0, kShort = 1, kLong = 2 };

// The list that the rule gives to a sequence of `length` positions: long iff length > original
// context.
RotaryFactors rotary_factors_for(const RopeSpec& rope, uint64_t length);
// The list that a policy gives to a sequence that is run at once.
RotaryFactors rotary_factors_for(const RopeSpec& rope, RopeSwitch policy, uint64_t length);

// Inverse frequencies in f32, angles as f32 products and cos, sin of them in double, rounded once:
// the reference's operations with less rounding. Immutable, safe to share.
class RopeTable {
 public:
  explicit RopeTable(const RopeSpec& rope);

  size_t half() const { return half_; }
  // cosine, sine [half()], times the magnitude.
  void fill(uint32_t position, RotaryFactors factors, float* cosine, float* sine) const;

 private:
  struct List {
    std::vector<float> inverse_frequencies;
    double magnitude = 1;
  };
  size_t half_;
  float position_scale_;
  List lists_[3];  // by RotaryFactors
};

}  // namespace phidias
