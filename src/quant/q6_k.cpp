#include "quant/q6_k.h"

#include "quant/blocks.h"
#include "quant/k_search.h"

namespace phidias {
namespace {

constexpr size_t kSubBlockValues = 16;

// Where value i of a block keeps its bits.
struct Position {
  size_t low_byte;
  size_t low_shift;
  size_t high_byte;
  size_t high_shift;
};

constexpr Position position_of(size_t i) {
  const size_t half = i / 128;
  const size_t within = i % 128;
  return {half * 64 + within % 64, within / 64 * 4, half * 32 + within % 32, within / 32 * 2};
}

}  // namespace

void Q6_K::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues, [](const Block& block, float* out) {
    const float scale = decode_f16(block.scale);
    for (size_t i = 0; i < kBlockValues; ++i) {
      const Position at = position_of(i);
      const int low = (block.low[at.low_byte] >> at.low_shift) & 0x0F;
      const int high = (block.high[at.high_byte] >> at.high_shift) & 0x03;
      const size_t sub_block = i / kSubBlockValues;
      const float step = scale * static_cast<float>(block.codes[sub_block]);
      out[i] = step * static_cast<float>(low + 16 * high - 32);
    }
  });
}

void Q6_K::encode(const float* src, std::byte* dst, size_t values, const float* importance) {
  encode_blocks<Block>(src, dst, values, kBlockValues, [&](const float* in, Block& block) {
    const float* matters = importance == nullptr ? nullptr : importance + (in - src);
    const SymmetricBlock found = encode_symmetric(in, matters);
    block.scale = found.scale;
    for (size_t s = 0; s < kBlockValues / kSubBlockValues; ++s) block.codes[s] = found.codes[s];
    for (size_t i = 0; i < kBlockValues; ++i) {
      const Position at = position_of(i);
      const int quant = found.quants[i] + 32;
      uint8_t& low = block.low[at.low_byte];
      uint8_t& high = block.high[at.high_byte];
      low = static_cast<uint8_t>(low | ((quant & 0x0F) << at.low_shift));
      high = static_cast<uint8_t>(high | ((quant >> 4) << at.high_shift));
    }
  });
}

}  // namespace phidias
