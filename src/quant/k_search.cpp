#include "quant/k_search.h"

#include <algorithm>
#include <cmath>

#include "quant/blocks.h"

namespace phidias {
namespace {

constexpr int kRefinements = 2;  // a third changes the error by less than 0.1 %

// ---- value = scale * quant - minimum
// ------------------------------------------------------------------

constexpr size_t kAffineValues = 32;
constexpr size_t kAffineBlocks = kSuperBlockValues / kAffineValues;

struct Affine {
  float scale = 0;
  float minimum = 0;  // not negative
};

// Quants of one sub-block by the nearest level; returns the weighted error.
float quantize_affine(const float* values, const float* weights, Affine fit, uint8_t highest,
                      uint8_t* quants) {
  const float inverse = inverse_of(fit.scale);
  float error = 0;
  for (size_t i = 0; i < kAffineValues; ++i) {
    quants[i] = truncate_to((values[i] + fit.minimum) * inverse + 0.5F, highest);
    const float miss = fit.scale * static_cast<float>(quants[i]) - fit.minimum - values[i];
    error += weights[i] * miss * miss;
  }
  return error;
}

// Least squares for given quants.
Affine solve_affine(const float* values, const float* weights, const uint8_t* quants) {
  float w = 0, wq = 0, wqq = 0, wx = 0, wqx = 0;
  for (size_t i = 0; i < kAffineValues; ++i) {
    const auto q = static_cast<float>(quants[i]);
    w += weights[i];
    wq += weights[i] * q;
    wqq += weights[i] * q * q;
    wx += weights[i] * values[i];
    wqx += weights[i] * q * values[i];
  }
  const float determinant = w * wqq - wq * wq;
  if (!(determinant > 0)) return {};
  const Affine fit = {(w * wqx - wq * wx) / determinant, (wq * wqx - wqq * wx) / determinant};
  if (fit.minimum >= 0) return fit;
  // The format cannot lift a sub-block above 0: fit the scale alone.
  return {wqq > 0 ? wqx / wqq : 0, 0};
}

// The best scale and minimum of one sub-block: levels laid over slightly more or less than its
// range, each then fitted to the values that fell on them.
Affine search_affine(const float* values, const float* weights, uint8_t highest) {
  constexpr int kSteps = 10;
  constexpr float kStep = 0.1F;  // of a level
  const auto [lowest, largest] = std::minmax_element(values, values + kAffineValues);
  const float low = std::min(*lowest, 0.0F);
  const float range = *largest - low;
  if (!(range > 0)) return {0, -low};

  uint8_t quants[kAffineValues];
  Affine best = {range / static_cast<float>(highest), -low};
  float best_error = quantize_affine(values, weights, best, highest, quants);
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float levels = static_cast<float>(highest) + kStep * static_cast<float>(step);
    quantize_affine(values, weights, {range / levels, -low}, highest, quants);
    const Affine fit = solve_affine(values, weights, quants);
    const float error = quantize_affine(values, weights, fit, highest, quants);
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

// The pair of codes next to `wanted` with the least error, and the quants that belong to it.
float choose_affine_codes(const float* values, const float* weights, Affine wanted, Affine unit,
                          uint8_t highest, uint8_t& scale_code, uint8_t& minimum_code,
                          uint8_t* quants) {
  const uint8_t scale_centre = truncate_to(wanted.scale * inverse_of(unit.scale) + 0.5F, 63);
  const uint8_t minimum_centre = truncate_to(wanted.minimum * inverse_of(unit.minimum) + 0.5F, 63);
  float best_error = -1;
  uint8_t candidate[kAffineValues];
  for (int scale_step = -1; scale_step <= 1; ++scale_step) {
    for (int minimum_step = -1; minimum_step <= 1; ++minimum_step) {
      const uint8_t scale = neighbour(scale_centre, scale_step);
      const uint8_t minimum = neighbour(minimum_centre, minimum_step);
      const Affine fit = {unit.scale * static_cast<float>(scale),
                          unit.minimum * static_cast<float>(minimum)};
      const float error = quantize_affine(values, weights, fit, highest, candidate);
      if (best_error >= 0 && !(error < best_error)) continue;
      best_error = error;
      scale_code = scale;
      minimum_code = minimum;
      std::copy(candidate, candidate + kAffineValues, quants);
    }
  }
  return best_error;
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
// ----------------------------------------------------------------------------

constexpr size_t kSymmetricValues = 16;
constexpr size_t kSymmetricBlocks = kSuperBlockValues / kSymmetricValues;

int8_t nearest_signed(float value) {
  return static_cast<int8_t>(static_cast<int>(truncate_to(value + 32.5F, 63)) - 32);
}

float quantize_symmetric(const float* values, const float* weights, float scale, int8_t* quants) {
  const float inverse = inverse_of(scale);
  float error = 0;
  for (size_t i = 0; i < kSymmetricValues; ++i) {
    quants[i] = nearest_signed(values[i] * inverse);
    const float miss = scale * static_cast<float>(quants[i]) - values[i];
    error += weights[i] * miss * miss;
  }
  return error;
}

// The best scale of one sub-block: the value of largest magnitude lies near level -32 or 31 of it.
float search_symmetric(const float* values, const float* weights) {
  constexpr int kSteps = 10;
  constexpr float kStep = 0.1F;  // of a level
  float peak = 0;
  for (size_t i = 0; i < kSymmetricValues; ++i) {
    if (std::fabs(values[i]) > std::fabs(peak)) peak = values[i];
  }
  if (peak == 0) return 0;

  float best = 0;
  float best_error = -1;
  int8_t quants[kSymmetricValues];
  for (const float end : {-32.0F, 31.0F}) {
    for (int step = -kSteps; step <= kSteps; ++step) {
      quantize_symmetric(values, weights, peak / (end + kStep * static_cast<float>(step)), quants);
      float wqq = 0, wqx = 0;
      for (size_t i = 0; i < kSymmetricValues; ++i) {
        const auto q = static_cast<float>(quants[i]);
        wqq += weights[i] * q * q;
        wqx += weights[i] * q * values[i];
      }
      const float scale = wqq > 0 ? wqx / wqq : 0;
      const float error = quantize_symmetric(values, weights, scale, quants);
      if (best_error < 0 || error < best_error) {
        best = scale;
        best_error = error;
      }
    }
  }
  return best;
}

float choose_symmetric_code(const float* values, const float* weights, float wanted, float unit,
                            int8_t& code, int8_t* quants) {
  const float ratio = wanted * inverse_of(unit);
  const int centre = static_cast<int>(truncate_to(ratio + 128.5F, 255)) - 128;
  float best_error = -1;
  int8_t candidate[kSymmetricValues];
  for (int step = -1; step <= 1; ++step) {
    const int tried = std::clamp(centre + step, -128, 127);
    const float error =
        quantize_symmetric(values, weights, unit * static_cast<float>(tried), candidate);
    if (best_error >= 0 && !(error < best_error)) continue;
    best_error = error;
    code = static_cast<int8_t>(tried);
    std::copy(candidate, candidate + kSymmetricValues, quants);
  }
  return best_error;
}

float solve_symmetric_unit(const float* values, const float* weights, const SymmetricBlock& block,
                           float old) {
  double aa = 0, ax = 0;
  for (size_t i = 0; i < kSuperBlockValues; ++i) {
    const double a = static_cast<double>(block.codes[i / kSymmetricValues]) * block.quants[i];
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
  float weights[kSuperBlockValues];
  Affine wanted[kAffineBlocks];
  Affine unit;
  for (size_t s = 0; s < kAffineBlocks; ++s) {
    const size_t at = s * kAffineValues;
    weigh(values.subspan(at, kAffineValues), {weights + at, kAffineValues});
    wanted[s] = search_affine(values.data() + at, weights + at, highest_quant);
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
      error +=
          choose_affine_codes(values.data() + at, weights + at, wanted[s], rounded, highest_quant,
                              block.codes.scale[s], block.codes.minimum[s], block.quants + at);
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
      error += choose_symmetric_code(values.data() + at, weights + at, wanted[s], rounded,
                                     block.codes[s], block.quants + at);
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
