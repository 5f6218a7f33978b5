// Q5_0: 32 values share a scale; value = scale * (quant - 16), with the quants' fifth bits apart.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q5_0 {
  struct Block {
    uint16_t scale;      // F16
    uint8_t high[4];     // bit i, counted through the four bytes, is the fifth bit of value i
    uint8_t quants[16];  // low nibbles are values 0-15, high nibbles values 16-31
  };
  static_assert(sizeof(Block) == 22);
  static constexpr uint32_t kBlockValues = 32;

  static void decode(const std::byte* src, float* dst, size_t values);
  static void encode(const float* src, std::byte* dst, size_t values);
};

}  // namespace phidias
