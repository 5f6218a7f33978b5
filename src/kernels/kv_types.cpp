#include <cmath>
#include <cstring>

#include "kernels/scalar/q8.h"
#include "kernels/table.h"
#include "quant/float16.h"

namespace phidias {
namespace {

template <size_t kBytes>
size_t plain_bytes(size_t dim) {
  return dim * kBytes;
}

void store_f32(const float* src, std::byte* dst, size_t dim) {
  std::memcpy(dst, src, dim * sizeof(float));
}
void load_f32(const std::byte* src, float* dst, size_t dim) {
  std::memcpy(dst, src, dim * sizeof(float));
}

template <uint16_t (*kEncode)(float)>
void store_half(const float* src, std::byte* dst, size_t dim) {
  for (size_t i = 0; i < dim; ++i) {
    const uint16_t bits = kEncode(src[i]);
    std::memcpy(dst + 2 * i, &bits, sizeof(bits));
  }
}
template <float (*kDecode)(uint16_t)>
void load_half(const std::byte* src, float* dst, size_t dim) {
  for (size_t i = 0; i < dim; ++i) {
    uint16_t bits;
    std::memcpy(&bits, src + 2 * i, sizeof(bits));
    dst[i] = kDecode(bits);
  }
}

size_t padded(size_t dim) { return (dim + 3) / 4 * 4; }
size_t q8_bytes(size_t dim) { return padded(dim) + sizeof(float); }

void store_q8(const float* src, std::byte* dst, size_t dim) {
  const float scale = q8_scale(largest_magnitude(src, dim));
  const float inverse = q8_inverse(scale);
  for (size_t i = 0; i < padded(dim); ++i) {
    dst[i] = static_cast<std::byte>(i < dim ? q8_value(src[i], inverse) : int8_t{0});
  }
  std::memcpy(dst + padded(dim), &scale, sizeof(scale));
}
void load_q8(const std::byte* src, float* dst, size_t dim) {
  float scale;
  std::memcpy(&scale, src + padded(dim), sizeof(scale));
  for (size_t i = 0; i < dim; ++i) {
    dst[i] = scale * static_cast<float>(static_cast<int8_t>(src[i]));
  }
}

constexpr KvTypeRow kRows[kKvTypeCount] = {
    {KvType::kF32, "f32", plain_bytes<4>, store_f32, load_f32},
    {KvType::kF16, "f16", plain_bytes<2>, store_half<encode_f16>, load_half<decode_f16>},
    {KvType::kBF16, "bf16", plain_bytes<2>, store_half<encode_bf16>, load_half<decode_bf16>},
    {KvType::kQ8, "q8", q8_bytes, store_q8, load_q8},
};

}  // namespace

const KvTypeRow& kv_type_row(KvType type) { return kRows[index_of(type)]; }

}  // namespace phidias
