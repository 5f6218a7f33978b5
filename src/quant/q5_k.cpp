#include "quant/q5_k.h"

#include "quant/blocks.h"
#include "quant/k_search.h"

namespace phidias {
namespace {

constexpr size_t kSubBlocks = 8;
constexpr size_t kSubBlockValues = 32;

}  // namespace

void Q5_K::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues, [](const Block& block, float* out) {
    const float scale = decode_f16(block.scale);
    const float minimum = decode_f16(block.minimum);
    const SubBlockCodes codes = unpack_codes(block.codes);
    for (size_t s = 0; s < kSubBlocks; ++s) {
      const float step = scale * static_cast<float>(codes.scale[s]);
      const float offset = minimum * static_cast<float>(codes.minimum[s]);
      const uint8_t* run = block.quants + s / 2 * kSubBlockValues;
      for (size_t i = 0; i < kSubBlockValues; ++i) {
        const int low = (run[i] >> (s % 2 * 4)) & 0x0F;
        const int high = (block.high[i] >> s) & 1;
        *out++ = step * static_cast<float>(low + 16 * high) - offset;
      }
    }
  });
}

void Q5_K::encode(const float* src, std::byte* dst, size_t values, const float* importance) {
  encode_blocks<Block>(src, dst, values, kBlockValues, [&](const float* in, Block& block) {
    const float* matters = importance == nullptr ? nullptr : importance + (in - src);
    const AffineBlock found = encode_affine(in, matters, 31);
    block.scale = found.scale;
    block.minimum = found.minimum;
    pack_codes(found.codes, block.codes);
    for (size_t i = 0; i < kBlockValues; ++i) {
      const size_t s = i / kSubBlockValues;
      uint8_t& packed = block.quants[s / 2 * kSubBlockValues + i % kSubBlockValues];
      packed = static_cast<uint8_t>(packed | ((found.quants[i] & 0x0F) << (s % 2 * 4)));
      uint8_t& high = block.high[i % kSubBlockValues];
      high = static_cast<uint8_t>(high | (found.quants[i] >> 4 << s));
    }
  });
}

}  // namespace phidias
