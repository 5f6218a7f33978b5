// Q4_0: 32 values share a scale; value = scale * (quant - 8).
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q4_0 {
  struct Block {
    uint16_t scale;      // F16
    uint8_t quants[16];  // low nibbles are values 0-15, high nibbles values 16-31
  };
  static_assert(sizeof(Block) == 18);
  static constexpr uint32_t kBlockValues = 32;

  static void decode(const std::byte* src, float* dst, size_t values);
  static void encode(const float* src, std::byte* dst, size_t values);
};

}  // namespace phidias
