// value = scale * quant - minimum: Q4_K and Q5_K.
#include <algorithm>
#include <cmath>

#include "quant/blocks.h"
#include "quant/k_search.h"
#include "quant/lanes.h"
#include "quant/sub_blocks.h"

namespace phidias {
namespace {

constexpr size_t kAffineValues = 32;
constexpr size_t kAffineBlocks = kSuperBlockValues / kAffineValues;
using AffineLanes = Lanes<kAffineBlocks>;
using AffineBlocks = SubBlocks<kAffineBlocks>;

PHIDIAS_WIDE_CLONES
void quantize_affine(AffineBlocks& blocks, const AffineLanes& inverse, const AffineLanes& minimum,
                     float highest, Sums<kAffineBlocks>& sums) {
  quantize(blocks, inverse, minimum, {0, highest}, sums);
}
PHIDIAS_WIDE_CLONES
void measure_affine(const AffineBlocks& blocks, const AffineLanes& scale,
                    const AffineLanes& minimum, AffineLanes& error) {
  measure(blocks, scale, minimum, error);
}

struct Affine {
  float scale = 0;
  float minimum = 0;  // not negative
};

// Least squares for given quants, of which `w` and `wx` are the sums that do not depend on them.
Affine solve_affine(float w, float wx, float wq, float wqq, float wqx) {
  const float determinant = w * wqq - wq * wq;
  if (!(determinant > 0)) return {};
  const Affine fit = {(w * wqx - wq * wx) / determinant, (wq * wqx - wqq * wx) / determinant};
  if (fit.minimum >= 0) return fit;
  // The format cannot lift a sub-block above 0: fit the scale alone.
  return {wqq > 0 ? wqx / wqq : 0, 0};
}

struct AffineFits {
  AffineLanes scale;
  AffineLanes minimum;
};

// The best scale and minimum of each sub-block: levels laid over slightly more or less than its
// range, each then fitted to the values that fell on them.
AffineFits search_affine(AffineBlocks& blocks, float highest) {
  AffineLanes low = {}, high = {}, w = {}, wx = {};
  for (size_t s = 0; s < kAffineBlocks; ++s) high.of[s] = blocks.values[0].of[s];
  for (size_t i = 0; i < kAffineValues; ++i) {
    for (size_t s = 0; s < kAffineBlocks; ++s) {
      const float x = blocks.values[i].of[s];
      low.of[s] = x < low.of[s] ? x : low.of[s];
      high.of[s] = x > high.of[s] ? x : high.of[s];
      w.of[s] += blocks.weights[i].of[s];
      wx.of[s] += blocks.weights[i].of[s] * x;
    }
  }
  AffineFits best = {}, tried = {};
  AffineLanes inverse = {}, minimum = {}, error = {}, least = {};
  Sums<kAffineBlocks> sums;
  for (size_t s = 0; s < kAffineBlocks; ++s) {
    const float range = high.of[s] - low.of[s];
    minimum.of[s] = -low.of[s];
    best.scale.of[s] = range > 0 ? range / highest : 0;
    best.minimum.of[s] = -low.of[s];
    inverse.of[s] = inverse_of(best.scale.of[s]);
  }
  quantize_affine(blocks, inverse, minimum, highest, sums);
  measure_affine(blocks, best.scale, best.minimum, least);
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float levels = highest + kStep * static_cast<float>(step);
    for (size_t s = 0; s < kAffineBlocks; ++s) {
      inverse.of[s] = inverse_of((high.of[s] - low.of[s]) / levels);
    }
    quantize_affine(blocks, inverse, minimum, highest, sums);
    for (size_t s = 0; s < kAffineBlocks; ++s) {
      const Affine fit =
          solve_affine(w.of[s], wx.of[s], sums.q.of[s], sums.qq.of[s], sums.qx.of[s]);
      tried.scale.of[s] = fit.scale;
      tried.minimum.of[s] = fit.minimum;
    }
    measure_affine(blocks, tried.scale, tried.minimum, error);
    for (size_t s = 0; s < kAffineBlocks; ++s) {
      if (!(error.of[s] < least.of[s])) continue;
      least.of[s] = error.of[s];
      best.scale.of[s] = tried.scale.of[s];
      best.minimum.of[s] = tried.minimum.of[s];
    }
  }
  return best;
}

uint8_t neighbour(uint8_t code, int step) {
  return static_cast<uint8_t>(std::clamp(static_cast<int>(code) + step, 0, 63));
}

// The pairs of codes next to `wanted` with the least errors, and the quants that belong to them.
// Returns the sum of the errors.
float choose_affine_codes(AffineBlocks& blocks, const AffineFits& wanted, Affine unit,
                          float highest, AffineBlock& block) {
  SubBlockCodes centre = {};
  for (size_t s = 0; s < kAffineBlocks; ++s) {
    centre.scale[s] = truncate_to(wanted.scale.of[s] * inverse_of(unit.scale) + 0.5F, 63);
    centre.minimum[s] = truncate_to(wanted.minimum.of[s] * inverse_of(unit.minimum) + 0.5F, 63);
  }
  AffineLanes least = {}, error = {}, scale = {}, inverse = {}, minimum = {};
  for (float& of : least.of) of = -1;
  Sums<kAffineBlocks> sums;
  const auto lay = [&](const SubBlockCodes& codes) {
    for (size_t s = 0; s < kAffineBlocks; ++s) {
      scale.of[s] = unit.scale * static_cast<float>(codes.scale[s]);
      inverse.of[s] = inverse_of(scale.of[s]);
      minimum.of[s] = unit.minimum * static_cast<float>(codes.minimum[s]);
    }
    quantize_affine(blocks, inverse, minimum, highest, sums);
  };
  block.codes = centre;
  for (int scale_step = -1; scale_step <= 1; ++scale_step) {
    for (int minimum_step = -1; minimum_step <= 1; ++minimum_step) {
      SubBlockCodes codes;
      for (size_t s = 0; s < kAffineBlocks; ++s) {
        codes.scale[s] = neighbour(centre.scale[s], scale_step);
        codes.minimum[s] = neighbour(centre.minimum[s], minimum_step);
      }
      lay(codes);
      measure_affine(blocks, scale, minimum, error);
      for (size_t s = 0; s < kAffineBlocks; ++s) {
        if (least.of[s] >= 0 && !(error.of[s] < least.of[s])) continue;
        least.of[s] = error.of[s];
        block.codes.scale[s] = codes.scale[s];
        block.codes.minimum[s] = codes.minimum[s];
      }
    }
  }
  lay(block.codes);
  float total = 0;
  for (size_t s = 0; s < kAffineBlocks; ++s) {
    total += least.of[s];
    for (size_t i = 0; i < kAffineValues; ++i) {
      block.quants[s * kAffineValues + i] = static_cast<uint8_t>(blocks.quants[i].of[s]);
    }
  }
  return total;
}

// Least squares for the block's own two floats, all codes and quants given.
Affine solve_affine_units(const AffineBlocks& blocks, const AffineBlock& block, Affine old) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;  // value = scale * a - minimum * b
  for (size_t s = 0; s < kAffineBlocks; ++s) {
    // Of the sub-block first, in which the codes are constant.
    double w = 0, q = 0, qq = 0, x = 0, qx = 0;
    for (size_t i = 0; i < kAffineValues; ++i) {
      const double weight = static_cast<double>(blocks.weights[i].of[s]);
      const double value = static_cast<double>(blocks.values[i].of[s]);
      const double quant = block.quants[s * kAffineValues + i];
      w += weight;
      q += weight * quant;
      qq += weight * quant * quant;
      x += weight * value;
      qx += weight * quant * value;
    }
    const double scale = block.codes.scale[s];
    const double minimum = block.codes.minimum[s];
    aa += scale * scale * qq;
    ab += scale * minimum * q;
    bb += minimum * minimum * w;
    ax += scale * qx;
    bx += minimum * x;
  }
  const double determinant = aa * bb - ab * ab;
  if (!(determinant > 1e-9 * aa * bb)) {
    return {aa > 0 && bb == 0 ? static_cast<float>(ax / aa) : old.scale, old.minimum};
  }
  return {static_cast<float>((bb * ax - ab * bx) / determinant),
          static_cast<float>((ab * ax - aa * bx) / determinant)};
}

}  // namespace

SubBlockCodes unpack_codes(const uint8_t (&packed)[12]) {
  SubBlockCodes codes;
  for (size_t s = 0; s < 4; ++s) {
    codes.scale[s] = packed[s] & 0x3F;
    codes.minimum[s] = packed[4 + s] & 0x3F;
    codes.scale[4 + s] = static_cast<uint8_t>((packed[8 + s] & 0x0F) | ((packed[s] >> 6) << 4));
    codes.minimum[4 + s] = static_cast<uint8_t>((packed[8 + s] >> 4) | ((packed[4 + s] >> 6) << 4));
  }
  return codes;
}

void pack_codes(const SubBlockCodes& codes, uint8_t (&packed)[12]) {
  for (size_t s = 0; s < 4; ++s) {
    const uint8_t scale = codes.scale[4 + s];
    const uint8_t minimum = codes.minimum[4 + s];
    packed[s] = static_cast<uint8_t>(codes.scale[s] | ((scale >> 4) << 6));
    packed[4 + s] = static_cast<uint8_t>(codes.minimum[s] | ((minimum >> 4) << 6));
    packed[8 + s] = static_cast<uint8_t>((scale & 0x0F) | ((minimum & 0x0F) << 4));
  }
}

AffineBlock encode_affine(const float* values, const float* importance, uint8_t highest_quant) {
  const auto highest = static_cast<float>(highest_quant);
  AffineBlocks blocks;
  load(values, importance, blocks);
  const AffineFits wanted = search_affine(blocks, highest);
  Affine unit;
  for (size_t s = 0; s < kAffineBlocks; ++s) {
    unit.scale = std::max(unit.scale, wanted.scale.of[s] / 63.0F);
    unit.minimum = std::max(unit.minimum, wanted.minimum.of[s] / 63.0F);
  }

  AffineBlock best = {};
  float best_error = -1;
  for (int round = 0; round <= kRefinements; ++round) {
    AffineBlock block = {};
    block.scale = encode_scale(unit.scale);
    block.minimum = encode_scale(unit.minimum);
    const Affine rounded = {decode_f16(block.scale), decode_f16(block.minimum)};
    const float error = choose_affine_codes(blocks, wanted, rounded, highest, block);
    if (best_error < 0 || error < best_error) {
      best = block;
      best_error = error;
    }
    unit = solve_affine_units(blocks, block, rounded);
    unit = {std::max(unit.scale, 0.0F), std::max(unit.minimum, 0.0F)};
  }
  return best;
}

}  // namespace phidias
