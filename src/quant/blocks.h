// What the files of this folder share: walking over blocks that need not be aligned, and rounding
// that is defined for every float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/float16.h"

namespace phidias {

// Calls decode_block(const Block&, float*) for each block of `src`.
template <typename Block, typename DecodeBlock>
void decode_blocks(const std::byte* src, float* dst, size_t values, size_t block_values,
                   DecodeBlock decode_block) {
  for (size_t done = 0; done < values; done += block_values) {
    Block block;
    std::memcpy(&block, src, sizeof(Block));
    decode_block(block, dst + done);
    src += sizeof(Block);
  }
}

// Calls encode_block(const float*, Block&) for each block of `dst`; the block begins as zero bytes.
template <typename Block, typename EncodeBlock>
void encode_blocks(const float* src, std::byte* dst, size_t values, size_t block_values,
                   EncodeBlock encode_block) {
  for (size_t done = 0; done < values; done += block_values) {
    Block block = {};
    encode_block(src + done, block);
    std::memcpy(dst, &block, sizeof(Block));
    dst += sizeof(Block);
  }
}

// Truncates to a whole number in [0, highest]; NaN gives 0. The caller adds 0.5 to round.
inline uint8_t truncate_to(float value, uint8_t highest) {
  if (!(value > 0)) return 0;
  return value < static_cast<float>(highest) ? static_cast<uint8_t>(value) : highest;
}

// 1 / scale, and 0 where that is no use: for 0, and for values so small that the quotient is
// infinite.
inline float inverse_of(float scale) {
  constexpr float kSmallest = 0x1p-126F;
  return scale >= kSmallest || scale <= -kSmallest ? 1.0F / scale : 0.0F;
}

// A block's scale, kept finite: an infinite one would turn the block's zeros into NaN.
inline uint16_t encode_scale(float scale) {
  constexpr float kLargest = 65504.0F;
  if (scale > kLargest) scale = kLargest;
  if (scale < -kLargest) scale = -kLargest;
  return encode_f16(scale);
}

}  // namespace phidias
