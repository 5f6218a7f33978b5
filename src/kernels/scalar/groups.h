// One group of 32 weights as integers: what the product with quantized activations is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/float16.h"
#include "quant/k_search.h"
#include "quant/nibbles.h"
#include "quant/q4.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace phidias::scalar {

// value[i] = scale * codes[i / 16] * quants[i] + minimum
struct WeightGroup {
  int32_t quants[32];
  int32_t codes[2] = {1, 1};
  float scale = 0;
  float minimum = 0;
};

template <typename F>
inline constexpr bool kHasMinimum = false;
template <>
inline constexpr bool kHasMinimum<Q4_1> = true;
template <>
inline constexpr bool kHasMinimum<Q5_1> = true;
template <>
inline constexpr bool kHasMinimum<Q4_K> = true;
template <>
inline constexpr bool kHasMinimum<Q5_K> = true;

template <size_t kCount>
void widen(const uint8_t (&bytes)[kCount], int32_t offset, WeightGroup& group) {
  for (size_t i = 0; i < kCount; ++i) group.quants[i] = bytes[i] + offset;
}

inline void to_group(const Q8_0::Block& block, size_t, WeightGroup& group) {
  for (size_t i = 0; i < 32; ++i) group.quants[i] = block.quants[i];
  group.scale = decode_f16(block.scale);
}

inline void to_group(const Q4_0::Block& block, size_t, WeightGroup& group) {
  uint8_t quants[32];
  unpack_nibbles(block.quants, quants);
  widen(quants, -8, group);
  group.scale = decode_f16(block.scale);
}

inline void to_group(const Q4_1::Block& block, size_t, WeightGroup& group) {
  uint8_t quants[32];
  unpack_nibbles(block.quants, quants);
  widen(quants, 0, group);
  group.scale = decode_f16(block.scale);
  group.minimum = decode_f16(block.minimum);
}

inline void to_group(const Q5_0::Block& block, size_t, WeightGroup& group) {
  uint8_t quants[32];
  unpack_nibbles(block.quants, quants);
  unpack_fifth_bits(block.high, quants);
  widen(quants, -16, group);
  group.scale = decode_f16(block.scale);
}

inline void to_group(const Q5_1::Block& block, size_t, WeightGroup& group) {
  uint8_t quants[32];
  unpack_nibbles(block.quants, quants);
  unpack_fifth_bits(block.high, quants);
  widen(quants, 0, group);
  group.scale = decode_f16(block.scale);
  group.minimum = decode_f16(block.minimum);
}

// Both products are exact: 11 bits times 6.
template <typename Block>
void k_scales(const Block& block, size_t s, WeightGroup& group) {
  const SubBlockCodes codes = unpack_codes(block.codes);
  group.scale = decode_f16(block.scale) * static_cast<float>(codes.scale[s]);
  group.minimum = -(decode_f16(block.minimum) * static_cast<float>(codes.minimum[s]));
}

inline uint8_t k_nibble(const uint8_t (&quants)[128], size_t s, size_t i) {
  const uint8_t byte = quants[s / 2 * 32 + i];
  return s % 2 == 0 ? byte & 0x0F : byte >> 4;
}

inline void to_group(const Q4_K::Block& block, size_t s, WeightGroup& group) {
  for (size_t i = 0; i < 32; ++i) group.quants[i] = k_nibble(block.quants, s, i);
  k_scales(block, s, group);
}

inline void to_group(const Q5_K::Block& block, size_t s, WeightGroup& group) {
  for (size_t i = 0; i < 32; ++i) {
    group.quants[i] = k_nibble(block.quants, s, i) | ((block.high[i] >> s) & 1) << 4;
  }
  k_scales(block, s, group);
}

// Group g is a quarter of its run of 128: values 32 (g % 4) onwards.
inline void to_group(const Q6_K::Block& block, size_t g, WeightGroup& group) {
  const size_t run = g / 4;
  const size_t quarter = g % 4;
  for (size_t i = 0; i < 32; ++i) {
    const uint8_t byte = block.low[run * 64 + quarter % 2 * 32 + i];
    const int low = quarter < 2 ? byte & 0x0F : byte >> 4;
    const int high = (block.high[run * 32 + i] >> (2 * quarter)) & 3;
    group.quants[i] = (low | high << 4) - 32;
  }
  group.codes[0] = block.codes[2 * g];
  group.codes[1] = block.codes[2 * g + 1];
  group.scale = decode_f16(block.scale);
}

// Group g of a row; the row need not be aligned.
template <typename F>
WeightGroup weight_group(const std::byte* row, size_t g) {
  constexpr size_t kGroupsInBlock = F::kBlockValues / 32;
  typename F::Block block;
  std::memcpy(&block, row + g / kGroupsInBlock * sizeof(block), sizeof(block));
  WeightGroup group;
  to_group(block, g % kGroupsInBlock, group);
  return group;
}

// Group g of row `row` of a tile of Q4; minimum is the offset, negative: value = scale * (quant +
// minimum).
inline WeightGroup q4_group(const std::byte* tile, size_t row, size_t g) {
  Q4::Block block;
  std::memcpy(&block, tile + g / 2 * sizeof(block), sizeof(block));
  WeightGroup group;
  for (size_t i = 0; i < 32; ++i) {
    group.quants[i] = (block.quants[i / 4][row][i % 4] >> (g % 2 * 4)) & 0x0F;
  }
  group.scale = Q4::scale_of(block.scales[row]);
  group.minimum = -Q4::kOffsetUnit * static_cast<float>(Q4::kOffsets[Q4::offset_index(block, row)]);
  return group;
}

}  // namespace phidias::scalar
