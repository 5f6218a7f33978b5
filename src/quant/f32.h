// F32: one float a value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

struct F32 {
  using Block = float;
  static constexpr uint32_t kBlockValues = 1;

  static void decode(const std::byte* src, float* dst, size_t values);
  static void encode(const float* src, std::byte* dst, size_t values);
};

}  // namespace phidias
