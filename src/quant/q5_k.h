// Q5_K: Q4_K with a fifth bit for every quant.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q5_K {
  struct Block {
    uint16_t scale;     // F16
    uint16_t minimum;   // F16
    uint8_t codes[12];  // see SubBlockCodes in k_search.h
    uint8_t high[32];   // bit s of byte i is the fifth bit of value i of sub-block s
    uint8_t
        quants[128];  // four runs of 32 bytes: low nibbles are sub-block 2r, high nibbles 2r + 1
  };
  static_assert(sizeof(Block) == 176);
  static constexpr uint32_t kBlockValues = 256;

  static void decode(const std::byte* src, float* dst, size_t values);
  // importance [values]: how much each column's squared error counts, or null.
  static void encode(const float* src, std::byte* dst, size_t values,
                     const float* importance = nullptr);
};

}  // namespace phidias
