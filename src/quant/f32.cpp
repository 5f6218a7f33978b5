#include "quant/f32.h"

#include <cstring>

namespace phidias {

void F32::decode(const std::byte* src, float* dst, size_t values) {
  if (values > 0) std::memcpy(dst, src, values * sizeof(float));
}

void F32::encode(const float* src, std::byte* dst, size_t values) {
  if (values > 0) std::memcpy(dst, src, values * sizeof(float));
}

}  // namespace phidias
