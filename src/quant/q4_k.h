// Q4_K: 256 values in 8 sub-blocks of 32. Sub-block s has 6-bit codes for a scale and a minimum;
// value = (scale * scale_code[s]) * quant - minimum * minimum_code[s].
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q4_K {
  struct Block {
    uint16_t scale;     // F16
    uint16_t minimum;   // F16
    uint8_t codes[12];  // see SubBlockCodes in k_search.h
    uint8_t
        quants[128];  // four runs of 32 bytes: low nibbles are sub-block 2r, high nibbles 2r + 1
  };
  static_assert(sizeof(Block) == 144);
  static constexpr uint32_t kBlockValues = 256;

  static void decode(const std::byte* src, float* dst, size_t values);
  // importance [values]: how much each column's squared error counts, or null.
  static void encode(const float* src, std::byte* dst, size_t values,
                     const float* importance = nullptr);
};

}  // namespace phidias
