// Q8_0: 32 values share a scale; value = scale * quant.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q8_0 {
  struct Block {
    uint16_t scale;  // F16
    int8_t quants[32];
  };
  static_assert(sizeof(Block) == 34);
  static constexpr uint32_t kBlockValues = 32;

  static void decode(const std::byte* src, float* dst, size_t values);
  static void encode(const float* src, std::byte* dst, size_t values);
};

}  // namespace phidias
