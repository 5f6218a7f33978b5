// value = scale * quant: Q6_K.
#include <algorithm>
#include <cmath>

#include "quant/blocks.h"
#include "quant/k_search.h"
#include "quant/lanes.h"
#include "quant/sub_blocks.h"

namespace phidias {
namespace {

constexpr size_t kSymmetricValues = 16;
constexpr size_t kSymmetricBlocks = kSuperBlockValues / kSymmetricValues;
constexpr float kLowestLevel = -32;
constexpr float kHighestLevel = 31;
using SymmetricLanes = Lanes<kSymmetricBlocks>;
using SymmetricBlocks = SubBlocks<kSymmetricBlocks>;

PHIDIAS_WIDE_CLONES
void quantize_symmetric(SymmetricBlocks& blocks, const SymmetricLanes& inverse,
                        Sums<kSymmetricBlocks>& sums) {
  static constexpr SymmetricLanes kNone = {};
  quantize(blocks, inverse, kNone, {kLowestLevel, kHighestLevel - kLowestLevel}, sums);
}
PHIDIAS_WIDE_CLONES
void measure_symmetric(const SymmetricBlocks& blocks, const SymmetricLanes& scale,
                       SymmetricLanes& error) {
  measure(blocks, scale, SymmetricLanes{}, error);
}

// The best scale of each sub-block: the value of largest magnitude lies near one end of the levels.
SymmetricLanes search_symmetric(SymmetricBlocks& blocks) {
  SymmetricLanes peak = {}, inverse = {}, best = {}, best_gain = {};
  for (size_t i = 0; i < kSymmetricValues; ++i) {
    for (size_t s = 0; s < kSymmetricBlocks; ++s) {
      const float x = blocks.values[i].of[s];
      if (std::fabs(x) > std::fabs(peak.of[s])) peak.of[s] = x;
    }
  }
  Sums<kSymmetricBlocks> sums;
  for (const float end : {kLowestLevel, kHighestLevel}) {
    for (int step = -kSteps; step <= kSteps; ++step) {
      const float level = end + kStep * static_cast<float>(step);
      for (size_t s = 0; s < kSymmetricBlocks; ++s) {
        inverse.of[s] = inverse_of(peak.of[s]) * level;
      }
      quantize_symmetric(blocks, inverse, sums);
      for (size_t s = 0; s < kSymmetricBlocks; ++s) {
        const float wqq = sums.qq.of[s];
        const float wqx = sums.qx.of[s];
        // With the best scale wqx / wqq, the error is the sum of weight * value^2 less this.
        const float gain = wqq > 0 ? wqx * (wqx / wqq) : 0;
        if (!(gain > best_gain.of[s])) continue;
        best.of[s] = wqx / wqq;
        best_gain.of[s] = gain;
      }
    }
  }
  return best;
}

float choose_symmetric_codes(SymmetricBlocks& blocks, const SymmetricLanes& wanted, float unit,
                             SymmetricBlock& block) {
  SymmetricLanes least = {}, error = {}, scale = {}, inverse = {};
  for (float& of : least.of) of = -1;
  Sums<kSymmetricBlocks> sums;
  const auto lay = [&](const int8_t(&codes)[kSymmetricBlocks]) {
    for (size_t s = 0; s < kSymmetricBlocks; ++s) {
      scale.of[s] = unit * static_cast<float>(codes[s]);
      inverse.of[s] = inverse_of(scale.of[s]);
    }
    quantize_symmetric(blocks, inverse, sums);
  };
  for (int step = -1; step <= 1; ++step) {
    int8_t codes[kSymmetricBlocks];
    for (size_t s = 0; s < kSymmetricBlocks; ++s) {
      const float code = wanted.of[s] * inverse_of(unit) + 128.5F;
      const int centre = static_cast<int>(truncate_to(code, 255)) - 128;
      codes[s] = static_cast<int8_t>(std::clamp(centre + step, -128, 127));
    }
    lay(codes);
    measure_symmetric(blocks, scale, error);
    for (size_t s = 0; s < kSymmetricBlocks; ++s) {
      if (least.of[s] >= 0 && !(error.of[s] < least.of[s])) continue;
      least.of[s] = error.of[s];
      block.codes[s] = codes[s];
    }
  }
  lay(block.codes);
  float total = 0;
  for (size_t s = 0; s < kSymmetricBlocks; ++s) {
    total += least.of[s];
    for (size_t i = 0; i < kSymmetricValues; ++i) {
      block.quants[s * kSymmetricValues + i] = static_cast<int8_t>(blocks.quants[i].of[s]);
    }
  }
  return total;
}

float solve_symmetric_unit(const SymmetricBlocks& blocks, const SymmetricBlock& block, float old) {
  double aa = 0, ax = 0;
  for (size_t s = 0; s < kSymmetricBlocks; ++s) {
    for (size_t i = 0; i < kSymmetricValues; ++i) {
      const double weight = static_cast<double>(blocks.weights[i].of[s]);
      const double a = static_cast<double>(block.codes[s]) * block.quants[s * kSymmetricValues + i];
      aa += weight * a * a;
      ax += weight * a * static_cast<double>(blocks.values[i].of[s]);
    }
  }
  return aa > 0 ? static_cast<float>(ax / aa) : old;
}

}  // namespace

SymmetricBlock encode_symmetric(const float* values, const float* importance) {
  SymmetricBlocks blocks;
  load(values, importance, blocks);
  const SymmetricLanes wanted = search_symmetric(blocks);
  float peak = 0;
  for (const float scale : wanted.of) {
    if (std::fabs(scale) > std::fabs(peak)) peak = scale;
  }

  SymmetricBlock best = {};
  float best_error = -1;
  float unit = peak / -128.0F;  // the peak's sub-block gets the code that has no counterpart
  for (int round = 0; round <= kRefinements; ++round) {
    SymmetricBlock block = {};
    block.scale = encode_scale(unit);
    const float rounded = decode_f16(block.scale);
    const float error = choose_symmetric_codes(blocks, wanted, rounded, block);
    if (best_error < 0 || error < best_error) {
      best = block;
      best_error = error;
    }
    unit = solve_symmetric_unit(blocks, block, rounded);
  }
  return best;
}

}  // namespace phidias
