// Q6_K: 256 values in 16 sub-blocks of 16, each with a signed 8-bit code for its scale;
// value = (scale * code[s]) * (quant - 32).
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q6_K {
  struct Block {
    uint8_t low[128];  // two runs of 64 bytes, each 128 values: low nibbles are values 0-63, high
                       // nibbles 64-127
    uint8_t high[64];  // two runs of 32 bytes: bits 2g and 2g + 1 of byte i are the top bits of
                       // value 32g + i
    int8_t codes[16];
    uint16_t scale;  // F16
  };
  static_assert(sizeof(Block) == 210);
  static constexpr uint32_t kBlockValues = 256;

  static void decode(const std::byte* src, float* dst, size_t values);
  // importance [values]: how much each column's squared error counts, or null.
  static void encode(const float* src, std::byte* dst, size_t values,
                     const float* importance = nullptr);
};

}  // namespace phidias
