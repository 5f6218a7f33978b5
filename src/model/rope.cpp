#include "model/rope.h"

#include <cmath>

namespace phidias {

RotaryFactors rotary_factors_for(const RopeSpec& rope, uint64_t length) {
  if (!rope.long_rope) return RotaryFactors::kPlain;
  return length > rope.long_rope->original_context ? RotaryFactors::kLong : RotaryFactors::kShort;
}

RotaryFactors rotary_factors_for(const RopeSpec& rope, RopeSwitch policy, uint64_t length) {
  if (!rope.long_rope) return RotaryFactors::kPlain;
  switch (policy) {
    case RopeSwitch::kShort:
      return RotaryFactors::kShort;
    case RopeSwitch::kLong:
      return RotaryFactors::kLong;
    case RopeSwitch::kReprefill:
    case RopeSwitch::kKeep:
      break;
  }
  return rotary_factors_for(rope, length);
}

RopeTable::RopeTable(const RopeSpec& rope)
    : half_(rope.rotary_dims / 2), position_scale_(static_cast<float>(rope.position_scale)) {
  auto build = [&](const std::vector<float>* factors, double magnitude) {
    List list;
    list.magnitude = magnitude;
    for (size_t m = 0; m < half_; ++m) {
      const float exponent = static_cast<float>(2 * m) / static_cast<float>(rope.rotary_dims);
      const auto power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
      list.inverse_frequencies.push_back(1.0F /
                                         ((factors != nullptr ? (*factors)[m] : 1.0F) * power));
    }
    return list;
  };
  if (rope.long_rope) {
    lists_[static_cast<size_t>(RotaryFactors::kShort)] =
        build(&rope.long_rope->short_factors, rope.long_rope->short_magnitude);
    lists_[static_cast<size_t>(RotaryFactors::kLong)] =
        build(&rope.long_rope->long_factors, rope.long_rope->long_magnitude);
  } else {
    lists_[static_cast<size_t>(RotaryFactors::kPlain)] = build(nullptr, 1.0);
  }
}

void RopeTable::fill(uint32_t position, RotaryFactors factors, float* cosine, float* sine) const {
  const List& list = lists_[static_cast<size_t>(factors)];
  const float scaled =
      static_cast<float>(position) * (factors == RotaryFactors::kPlain ? position_scale_ : 1.0F);
  for (size_t m = 0; m < half_; ++m) {
    const double angle = scaled * list.inverse_frequencies[m];
    cosine[m] = static_cast<float>(list.magnitude * std::cos(angle));
    sine[m] = static_cast<float>(list.magnitude * std::sin(angle));
  }
}

}  // namespace phidias
