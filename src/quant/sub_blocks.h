// The sub-blocks of a K format's block side by side, and the two hot loops of the searches over
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "quant/k_search.h"

namespace phidias {

inline constexpr int kRefinements = 1;  // a second changes the error by 0.1 %
inline constexpr int kSteps = 5;        // tried to either side of a sub-block's own range
inline constexpr float kStep = 0.2F;    // of a level; halves of it change the error by 0.1 %

// The sub-blocks of a block lie side by side: number [i][s] belongs to value i of sub-block s.
template <size_t kBlocks>
struct Lanes {
  float of[kBlocks];
};
template <size_t kBlocks>
struct SubBlocks {
  static constexpr size_t kValues = kSuperBlockValues / kBlocks;
  Lanes<kBlocks> values[kValues];
  Lanes<kBlocks> weights[kValues];
  Lanes<kBlocks> quants[kValues];
};

// Large weights matter more to the output than their share of the squared error says: a value
// weighs its sub-block's root mean square plus its own magnitude, times its column's importance.
template <size_t kBlocks>
inline void load(const float* values, const float* importance, SubBlocks<kBlocks>& blocks) {
  constexpr size_t kValues = SubBlocks<kBlocks>::kValues;
  for (size_t s = 0; s < kBlocks; ++s) {
    const float* of = values + s * kValues;
    const float* matters = importance == nullptr ? nullptr : importance + s * kValues;
    float squares = 0;
    float total = 0;
    for (size_t i = 0; i < kValues; ++i) {
      squares += of[i] * of[i];
      total += matters == nullptr ? 1 : matters[i];
    }
    const float typical = std::sqrt(squares / static_cast<float>(kValues));
    for (size_t i = 0; i < kValues; ++i) {
      blocks.values[i].of[s] = of[i];
      const float factor = matters != nullptr && total > 0 ? matters[i] : 1;
      blocks.weights[i].of[s] = factor * (typical + std::fabs(of[i]));
    }
  }
}

// Sums over a sub-block, each value by its weight.
template <size_t kBlocks>
struct Sums {
  Lanes<kBlocks> q, qq, qx;
};

// Truncates to a whole number in [0, highest]; NaN gives 0.
[[gnu::always_inline]] inline float truncate_within(float value, float highest) {
  return static_cast<float>(static_cast<int>(std::min(std::max(0.0F, value), highest)));
}

// quant = the nearest level of value * inverse + shift, within [lowest, lowest + levels].
struct Levels {
  float lowest;
  float count;
};

// The two hot loops. `shift` and `inverse` are numbers of each sub-block.
template <size_t kBlocks>
[[gnu::always_inline]] inline void quantize(SubBlocks<kBlocks>& __restrict blocks,
                                            const Lanes<kBlocks>& __restrict inverse,
                                            const Lanes<kBlocks>& __restrict shift, Levels levels,
                                            Sums<kBlocks>& __restrict sums) {
  sums = {};
  for (size_t i = 0; i < SubBlocks<kBlocks>::kValues; ++i) {
    for (size_t s = 0; s < kBlocks; ++s) {
      const float x = blocks.values[i].of[s];
      const float place = (x + shift.of[s]) * inverse.of[s] - levels.lowest + 0.5F;
      const float q = levels.lowest + truncate_within(place, levels.count);
      const float wq = blocks.weights[i].of[s] * q;
      blocks.quants[i].of[s] = q;
      sums.q.of[s] += wq;
      sums.qq.of[s] += wq * q;
      sums.qx.of[s] += wq * x;
    }
  }
}
// The error of value = scale * quant - shift.
template <size_t kBlocks>
[[gnu::always_inline]] inline void measure(const SubBlocks<kBlocks>& __restrict blocks,
                                           const Lanes<kBlocks>& __restrict scale,
                                           const Lanes<kBlocks>& __restrict shift,
                                           Lanes<kBlocks>& __restrict error) {
  error = {};
  for (size_t i = 0; i < SubBlocks<kBlocks>::kValues; ++i) {
    for (size_t s = 0; s < kBlocks; ++s) {
      const float miss =
          scale.of[s] * blocks.quants[i].of[s] - shift.of[s] - blocks.values[i].of[s];
      error.of[s] += blocks.weights[i].of[s] * miss * miss;
    }
  }
}

}  // namespace phidias
