#include "quant/k_search.h"

#include <algorithm>
#include <cmath>

#include "quant/blocks.h"

namespace phidias {
namespace {

constexpr int kRefinements = 2;  // a third changes the error by less than 0.1 %
constexpr int kSteps = 10;       // tried to either side of a sub-block's own range
constexpr float kStep = 0.1F;    // of a level

// Nothing below branches on single values, and sums run in lanes: so compilers make vectors of the
// loops without being allowed to reorder anything.
template <size_t kCount, typename Term>
float sum(Term term) {
  constexpr size_t kLanes = 8;
  float lanes[kLanes] = {};
  for (size_t i = 0; i < kCount; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  float total = 0;
  for (const float lane : lanes) total += lane;
  return total;
}

// Truncates to a whole number in [0, highest]; NaN gives 0.
float truncate_within(float value, float highest) {
  const float positive = value > 0 ? value : 0;
  return static_cast<float>(static_cast<int>(positive < highest ? positive : highest));
}

// ---- value = scale * quant - minimum
// --------------------------------------------------------------

constexpr size_t kAffineValues = 32;
constexpr size_t kAffineBlocks = kSuperBlockValues / kAffineValues;

struct Affine {
  float scale = 0;
  float minimum = 0;  // not negative
};

void quantize_affine(const float* values, Affine fit, float highest, float* quants) {
  const float inverse = inverse_of(fit.scale);
  for (size_t i = 0; i < kAffineValues; ++i) {
    quants[i] = truncate_within((values[i] + fit.minimum) * inverse + 0.5F, highest);
  }
}

float affine_error(const float* values, const float* weights, Affine fit, const float* quants) {
  return sum<kAffineValues>([&](size_t i) {
    const float miss = fit.scale * quants[i] - fit.minimum - values[i];
    return weights[i] * miss * miss;
  });
}

// Least squares for given quants.
Affine solve_affine(const float* values, const float* weights, const float* quants) {
  const float w = sum<kAffineValues>([&](size_t i) { return weights[i]; });
  const float wx = sum<kAffineValues>([&](size_t i) { return weights[i] * values[i]; });
  const float wq = sum<kAffineValues>([&](size_t i) { return weights[i] * quants[i]; });
  const float wqq =
      sum<kAffineValues>([&](size_t i) { return weights[i] * quants[i] * quants[i]; });
  const float wqx =
      sum<kAffineValues>([&](size_t i) { return weights[i] * quants[i] * values[i]; });
  const float determinant = w * wqq - wq * wq;
  if (!(determinant > 0)) return {};
  const Affine fit = {(w * wqx - wq * wx) / determinant, (wq * wqx - wqq * wx) / determinant};
  if (fit.minimum >= 0) return fit;
  // The format cannot lift a sub-block above 0: fit the scale alone.
  return {wqq > 0 ? wqx / wqq : 0, 0};
}

// The best scale and minimum of one sub-block: levels laid over slightly more or less than its
// range, each then fitted to the values that fell on them.
Affine search_affine(const float* values, const float* weights, float highest) {
  const auto [lowest, largest] = std::minmax_element(values, values + kAffineValues);
  const float low = std::min(*lowest, 0.0F);
  const float range = *largest - low;
  if (!(range > 0)) return {0, -low};

  float quants[kAffineValues];
  Affine best = {range / highest, -low};
  quantize_affine(values, best, highest, quants);
  float best_error = affine_error(values, weights, best, quants);
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float levels = highest + kStep * static_cast<float>(step);
    quantize_affine(values, {range / levels, -low}, highest, quants);
    const Affine fit = solve_affine(values, weights, quants);
    const float error = affine_error(values, weights, fit, quants);
    if (error < best_error) {
      best = fit;
      best_error = error;
    }
  }
  return best;
}

uint8_t neighbour(uint8_t code, int step) {
  return static_cast<uint8_t>(std::clamp(static_cast<int>(code) + step, 0, 63));
}

// A sub-block with its codes chosen.
struct CodedAffine {
  uint8_t scale = 0;
  uint8_t minimum = 0;
  float error = -1;
  float quants[kAffineValues];
};

// The pair of codes next to `wanted` with the least error, and the quants that belong to it.
CodedAffine choose_affine_codes(const float* values, const float* weights, Affine wanted,
                                Affine unit, float highest) {
  const uint8_t scale_centre = truncate_to(wanted.scale * inverse_of(unit.scale) + 0.5F, 63);
  const uint8_t minimum_centre = truncate_to(wanted.minimum * inverse_of(unit.minimum) + 0.5F, 63);
  CodedAffine best;
  CodedAffine tried;
  for (int scale_step = -1; scale_step <= 1; ++scale_step) {
    for (int minimum_step = -1; minimum_step <= 1; ++minimum_step) {
      tried.scale = neighbour(scale_centre, scale_step);
      tried.minimum = neighbour(minimum_centre, minimum_step);
      const Affine fit = {unit.scale * static_cast<float>(tried.scale),
                          unit.minimum * static_cast<float>(tried.minimum)};
      quantize_affine(values, fit, highest, tried.quants);
      tried.error = affine_error(values, weights, fit, tried.quants);
      if (best.error < 0 || tried.error < best.error) best = tried;
    }
  }
  return best;
}

// Least squares for the block's own two floats, all codes and quants given.
Affine solve_affine_units(const float* values, const float* weights, const AffineBlock& block,
                          Affine old) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;  // value = scale * a - minimum * b
  for (size_t i = 0; i < kSuperBlockValues; ++i) {
    const size_t s = i / kAffineValues;
    const double a = static_cast<double>(block.codes.scale[s]) * block.quants[i];
    const double b = block.codes.minimum[s];
    aa += weights[i] * a * a;
    ab += weights[i] * a * b;
    bb += weights[i] * b * b;
    ax += weights[i] * a * values[i];
    bx += weights[i] * b * values[i];
  }
  const double determinant = aa * bb - ab * ab;
  if (!(determinant > 1e-9 * aa * bb)) {
    return {aa > 0 && bb == 0 ? static_cast<float>(ax / aa) : old.scale, old.minimum};
  }
  return {static_cast<float>((bb * ax - ab * bx) / determinant),
          static_cast<float>((ab * ax - aa * bx) / determinant)};
}

// ---- value = scale * quant
// ------------------------------------------------------------------------

constexpr size_t kSymmetricValues = 16;
constexpr size_t kSymmetricBlocks = kSuperBlockValues / kSymmetricValues;
constexpr float kLowestLevel = -32;
constexpr float kHighestLevel = 31;

void quantize_symmetric(const float* values, float inverse, float* quants) {
  for (size_t i = 0; i < kSymmetricValues; ++i) {
    quants[i] = kLowestLevel + truncate_within(values[i] * inverse - kLowestLevel + 0.5F,
                                               kHighestLevel - kLowestLevel);
  }
}

// The best scale of one sub-block: the value of largest magnitude lies near one end of the levels.
float search_symmetric(const float* values, const float* weights) {
  float peak = 0;
  for (size_t i = 0; i < kSymmetricValues; ++i) {
    if (std::fabs(values[i]) > std::fabs(peak)) peak = values[i];
  }
  const float inverse_peak = inverse_of(peak);
  float best = 0;
  float best_gain = 0;
  float quants[kSymmetricValues];
  for (const float end : {kLowestLevel, kHighestLevel}) {
    for (int step = -kSteps; step <= kSteps; ++step) {
      quantize_symmetric(values, inverse_peak * (end + kStep * static_cast<float>(step)), quants);
      const float wqq =
          sum<kSymmetricValues>([&](size_t i) { return weights[i] * quants[i] * quants[i]; });
      const float wqx =
          sum<kSymmetricValues>([&](size_t i) { return weights[i] * quants[i] * values[i]; });
      // With the best scale wqx / wqq, the error is the sum of weight * value^2 less this.
      const float gain = wqq > 0 ? wqx * (wqx / wqq) : 0;
      if (gain > best_gain) {
        best = wqx / wqq;
        best_gain = gain;
      }
    }
  }
  return best;
}

struct CodedSymmetric {
  int8_t code = 0;
  float error = -1;
  float quants[kSymmetricValues];
};

CodedSymmetric choose_symmetric_code(const float* values, const float* weights, float wanted,
                                     float unit) {
  const int centre = static_cast<int>(truncate_to(wanted * inverse_of(unit) + 128.5F, 255)) - 128;
  CodedSymmetric best;
  CodedSymmetric tried;
  for (int step = -1; step <= 1; ++step) {
    tried.code = static_cast<int8_t>(std::clamp(centre + step, -128, 127));
    const float scale = unit * static_cast<float>(tried.code);
    quantize_symmetric(values, inverse_of(scale), tried.quants);
    tried.error = sum<kSymmetricValues>([&](size_t i) {
      const float miss = scale * tried.quants[i] - values[i];
      return weights[i] * miss * miss;
    });
    if (best.error < 0 || tried.error < best.error) best = tried;
  }
  return best;
}

float solve_symmetric_unit(const float* values, const float* weights, const SymmetricBlock& block,
                           float old) {
  double aa = 0, ax = 0;
  for (size_t i = 0; i < kSuperBlockValues; ++i) {
    const size_t sub_block = i / kSymmetricValues;
    const double a = static_cast<double>(block.codes[sub_block]) * block.quants[i];
    aa += weights[i] * a * a;
    ax += weights[i] * a * values[i];
  }
  return aa > 0 ? static_cast<float>(ax / aa) : old;
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

void weigh(std::span<const float> values, std::span<float> weights) {
  float squares = 0;
  for (const float value : values) squares += value * value;
  const float typical = std::sqrt(squares / static_cast<float>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) weights[i] = typical + std::fabs(values[i]);
}

AffineBlock encode_affine(std::span<const float, kSuperBlockValues> values, uint8_t highest_quant) {
  const auto highest = static_cast<float>(highest_quant);
  float weights[kSuperBlockValues];
  Affine wanted[kAffineBlocks];
  Affine unit;
  for (size_t s = 0; s < kAffineBlocks; ++s) {
    const size_t at = s * kAffineValues;
    weigh(values.subspan(at, kAffineValues), {weights + at, kAffineValues});
    wanted[s] = search_affine(values.data() + at, weights + at, highest);
    unit.scale = std::max(unit.scale, wanted[s].scale / 63.0F);
    unit.minimum = std::max(unit.minimum, wanted[s].minimum / 63.0F);
  }

  AffineBlock best = {};
  float best_error = -1;
  for (int round = 0; round <= kRefinements; ++round) {
    AffineBlock block = {};
    block.scale = encode_scale(unit.scale);
    block.minimum = encode_scale(unit.minimum);
    const Affine rounded = {decode_f16(block.scale), decode_f16(block.minimum)};
    float error = 0;
    for (size_t s = 0; s < kAffineBlocks; ++s) {
      const size_t at = s * kAffineValues;
      const CodedAffine coded =
          choose_affine_codes(values.data() + at, weights + at, wanted[s], rounded, highest);
      block.codes.scale[s] = coded.scale;
      block.codes.minimum[s] = coded.minimum;
      for (size_t i = 0; i < kAffineValues; ++i) {
        block.quants[at + i] = static_cast<uint8_t>(coded.quants[i]);
      }
      error += coded.error;
    }
    if (best_error < 0 || error < best_error) {
      best = block;
      best_error = error;
    }
    unit = solve_affine_units(values.data(), weights, block, rounded);
    unit = {std::max(unit.scale, 0.0F), std::max(unit.minimum, 0.0F)};
  }
  return best;
}

SymmetricBlock encode_symmetric(std::span<const float, kSuperBlockValues> values) {
  float weights[kSuperBlockValues];
  float wanted[kSymmetricBlocks];
  float peak = 0;
  for (size_t s = 0; s < kSymmetricBlocks; ++s) {
    const size_t at = s * kSymmetricValues;
    weigh(values.subspan(at, kSymmetricValues), {weights + at, kSymmetricValues});
    wanted[s] = search_symmetric(values.data() + at, weights + at);
    if (std::fabs(wanted[s]) > std::fabs(peak)) peak = wanted[s];
  }

  SymmetricBlock best = {};
  float best_error = -1;
  float unit = peak / -128.0F;  // the peak's sub-block gets the code that has no counterpart
  for (int round = 0; round <= kRefinements; ++round) {
    SymmetricBlock block = {};
    block.scale = encode_scale(unit);
    const float rounded = decode_f16(block.scale);
    float error = 0;
    for (size_t s = 0; s < kSymmetricBlocks; ++s) {
      const size_t at = s * kSymmetricValues;
      const CodedSymmetric coded =
          choose_symmetric_code(values.data() + at, weights + at, wanted[s], rounded);
      block.codes[s] = coded.code;
      for (size_t i = 0; i < kSymmetricValues; ++i) {
        block.quants[at + i] = static_cast<int8_t>(coded.quants[i]);
      }
      error += coded.error;
    }
    if (best_error < 0 || error < best_error) {
      best = block;
      best_error = error;
    }
    unit = solve_symmetric_unit(values.data(), weights, block, rounded);
  }
  return best;
}

}  // namespace phidias
