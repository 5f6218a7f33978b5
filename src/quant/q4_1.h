// Q4_1: 32 values share a scale and a minimum; value = scale * quant + minimum.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q4_1 {
  struct Block {
    uint16_t scale;      // F16
    uint16_t minimum;    // F16
    uint8_t quants[16];  // low nibbles are values 0-15, high nibbles values 16-31
  };
  static_assert(sizeof(Block) == 20);
  static constexpr uint32_t kBlockValues = 32;

  static void decode(const std::byte* src, float* dst, size_t values);
  static void encode(const float* src, std::byte* dst, size_t values);
};

}  // namespace phidias
