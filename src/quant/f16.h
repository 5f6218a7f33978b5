// F16: one IEEE 754 binary16 a value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct F16 {
  using Block = uint16_t;
  static constexpr uint32_t kBlockValues = 1;

  static void decode(const std::byte* src, float* dst, size_t values);
  static void encode(const float* src, std::byte* dst, size_t values);
};

}  // namespace phidias
