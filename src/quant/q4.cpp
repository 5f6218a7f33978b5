#include "quant/q4.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "quant/blocks.h"
#include "quant/lanes.h"

namespace phidias {
namespace {

constexpr size_t kRows = Q4::kTileRows;
constexpr size_t kValues = Q4::kBlockValues;
constexpr float kHighest = 15;

// A number of each row.
struct Lanes {
  float of[kRows];
};

// Where the zero of a group may lie, and which code says so.
struct OffsetTable {
  // The nearest offset to place / 4.
  uint8_t nearest[61];
  constexpr OffsetTable() : nearest() {
    for (int place = 0; place <= 60; ++place) {
      int best = 0;
      for (int i = 1; i < 16; ++i) {
        const int miss = place - Q4::kOffsets[i];
        const int least = place - Q4::kOffsets[best];
        if (miss * miss < least * least) best = i;
      }
      nearest[place] = static_cast<uint8_t>(best);
    }
  }
};
constexpr OffsetTable kOffsetTable;

uint8_t nearest_offset(float offset) {
  return kOffsetTable.nearest[truncate_to(offset / Q4::kOffsetUnit + 0.5F, 60)];
}

float offset_of(uint8_t index) { return static_cast<float>(Q4::kOffsets[index]) * Q4::kOffsetUnit; }

// The nearest code, by the magnitude's ratio: rounding a float's bits.
uint8_t nearest_scale(float scale) {
  if (!(scale > Q4::scale_of(0))) return 0;
  if (scale >= Q4::scale_of(255)) return 255;
  const uint32_t bits = std::bit_cast<uint32_t>(scale) - Q4::kScaleBits;
  return static_cast<uint8_t>((bits + (1U << (Q4::kScaleShift - 1))) >> Q4::kScaleShift);
}

// Sixteen rows of 64 columns: values, and how much an error of each counts.
struct Group {
  Lanes values[kValues];
  float weights[kValues];
};

struct Choice {
  uint8_t scale[kRows];
  uint8_t offset[kRows];
};

// How well a choice fits, and where the zero would rather be.
struct Fit {
  Lanes error;
  Lanes offset;
};

// Adding and taking off 1.5 * 2^23 rounds to a whole number.
constexpr float kRound = 12582912.0F;

PHIDIAS_WIDE_CLONES
void find_fit(const Group& __restrict group, const Choice& __restrict choice, float weight,
              Fit& __restrict fit) {
  Lanes scale, inverse, offset;
  for (size_t r = 0; r < kRows; ++r) {
    scale.of[r] = Q4::scale_of(choice.scale[r]);
    inverse.of[r] = 1.0F / scale.of[r];
    offset.of[r] = offset_of(choice.offset[r]);
  }
  fit = {};
  for (size_t i = 0; i < kValues; ++i) {
    const float w = group.weights[i];
    const Lanes& x = group.values[i];
    for (size_t r = 0; r < kRows; ++r) {
      const float place = x.of[r] * inverse.of[r] + offset.of[r];
      const float inside = std::min(std::max(place, 0.0F), kHighest);
      const float miss = (inside + kRound - kRound) - place;
      fit.error.of[r] += w * miss * miss;
      fit.offset.of[r] += w * miss;
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    fit.error.of[r] *= scale.of[r] * scale.of[r];
    fit.offset.of[r] = offset.of[r] + fit.offset.of[r] / weight;
  }
}

// Codes to try about the one whose levels just span the values: narrower ones clip the ends, which
// pays in most groups.
constexpr int kNarrowest = -5;
constexpr int kWidest = 1;

// The least error over scales near the range's, each with the offset that centres the range and the
// one that its own errors ask for, then over the neighbours of the best.
Choice search(const Group& group) {
  Lanes low = group.values[0];
  Lanes high = group.values[0];
  float weight = 0;
  for (size_t i = 0; i < kValues; ++i) {
    weight += group.weights[i];
    for (size_t r = 0; r < kRows; ++r) {
      low.of[r] = std::min(low.of[r], group.values[i].of[r]);
      high.of[r] = std::max(high.of[r], group.values[i].of[r]);
    }
  }
  uint8_t span[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    low.of[r] = std::min(low.of[r], 0.0F);
    high.of[r] = std::max(high.of[r], 0.0F);
    span[r] = nearest_scale((high.of[r] - low.of[r]) / kHighest);
  }

  Choice best = {};
  Lanes least;
  for (float& error : least.of) error = INFINITY;
  const auto consider = [&](const Choice& choice) {
    Fit fit;
    find_fit(group, choice, weight, fit);
    for (size_t r = 0; r < kRows; ++r) {
      if (!(fit.error.of[r] < least.of[r])) continue;
      least.of[r] = fit.error.of[r];
      best.scale[r] = choice.scale[r];
      best.offset[r] = choice.offset[r];
    }
    return fit;
  };
  for (int step = kNarrowest; step <= kWidest; ++step) {
    Choice choice;
    for (size_t r = 0; r < kRows; ++r) {
      choice.scale[r] = static_cast<uint8_t>(std::clamp(span[r] + step, 0, 255));
      const float middle = (low.of[r] + high.of[r]) / 2;
      choice.offset[r] = nearest_offset(kHighest / 2 - middle / Q4::scale_of(choice.scale[r]));
    }
    const Fit fit = consider(choice);
    for (size_t r = 0; r < kRows; ++r) choice.offset[r] = nearest_offset(fit.offset.of[r]);
    consider(choice);
  }
  constexpr int kNeighbours[][2] = {{0, -1}, {0, 1},  {-1, -1}, {-1, 0},
                                    {-1, 1}, {1, -1}, {1, 0},   {1, 1}};
  for (const auto& [scale_step, offset_step] : kNeighbours) {
    Choice choice;
    for (size_t r = 0; r < kRows; ++r) {
      choice.scale[r] = static_cast<uint8_t>(std::clamp(best.scale[r] + scale_step, 0, 255));
      choice.offset[r] = static_cast<uint8_t>(std::clamp(best.offset[r] + offset_step, 0, 15));
    }
    consider(choice);
  }
  return best;
}

void pack(const Group& group, const Choice& choice, Q4::Block& block) {
  std::memcpy(block.scales, choice.scale, sizeof(block.scales));
  for (size_t r = 0; r < kRows / 2; ++r) {
    block.offsets[r] = static_cast<uint8_t>(choice.offset[r] | choice.offset[r + 8] << 4);
  }
  for (size_t r = 0; r < kRows; ++r) {
    const float inverse = 1.0F / Q4::scale_of(choice.scale[r]);
    const float offset = offset_of(choice.offset[r]);
    const auto quant = [&](size_t i) {
      return truncate_to(group.values[i].of[r] * inverse + offset + 0.5F, 15);
    };
    for (size_t i = 0; i < Q4::kHalfValues; ++i) {
      block.quants[i / 4][r][i % 4] = static_cast<uint8_t>(quant(i) | quant(i + 32) << 4);
    }
  }
}

}  // namespace

void Q4::decode_row(const std::byte* tile, size_t row, float* dst, size_t values) {
  decode_blocks<Block>(tile, dst, values, kBlockValues, [row](const Block& block, float* out) {
    const float scale = scale_of(block.scales[row]);
    const float offset = offset_of(offset_index(block, row));
    for (size_t i = 0; i < kHalfValues; ++i) {
      const uint8_t both = block.quants[i / 4][row][i % 4];
      out[i] = scale * (static_cast<float>(both & 0x0F) - offset);
      out[i + kHalfValues] = scale * (static_cast<float>(both >> 4) - offset);
    }
  });
}

void Q4::encode(const float* src, size_t rows, const float* importance, std::byte* tile,
                size_t values) {
  Group group = {};
  for (size_t column = 0; column < values; column += kBlockValues) {
    for (size_t r = 0; r < rows; ++r) {
      const float* row = src + r * values + column;
      for (size_t i = 0; i < kBlockValues; ++i) {
        // Not finite: no level would be right, and a search could not tell them apart.
        group.values[i].of[r] = std::fabs(row[i]) <= 3.4e38F ? row[i] : 0;
      }
    }
    const bool weighed = importance != nullptr &&
                         std::any_of(importance + column, importance + column + kBlockValues,
                                     [](float weight) { return weight > 0; });
    for (size_t i = 0; i < kBlockValues; ++i) {
      group.weights[i] = weighed ? importance[column + i] : 1.0F;
    }
    Block block;
    pack(group, search(group), block);
    std::memcpy(tile, &block, sizeof(Block));
    tile += sizeof(Block);
  }
}

void Q4::copy_row(const std::byte* from_tile, size_t from, std::byte* to_tile, size_t to,
                  size_t values) {
  for (size_t done = 0; done < values; done += kBlockValues) {
    Block source, target;
    std::memcpy(&source, from_tile, sizeof(Block));
    std::memcpy(&target, to_tile, sizeof(Block));
    target.scales[to] = source.scales[from];
    const uint8_t offset = offset_index(source, from);
    uint8_t& packed = target.offsets[to % 8];
    packed =
        static_cast<uint8_t>(to < 8 ? (packed & 0xF0) | offset : (packed & 0x0F) | offset << 4);
    for (size_t chunk = 0; chunk < kChunks; ++chunk) {
      std::memcpy(target.quants[chunk][to], source.quants[chunk][from], 4);
    }
    std::memcpy(to_tile, &target, sizeof(Block));
    from_tile += sizeof(Block);
    to_tile += sizeof(Block);
  }
}

}  // namespace phidias
