#include <cstring>

#include "kernels/isa.h"
#include "kernels/neon/fill.h"
#include "kernels/neon/q8.h"
#include "kernels/neon/runs.h"
#include "quant/float16.h"

namespace phidias::neon {
namespace {

// The elements of one key lie kKvBlock apart.
template <typename Element>
void scatter(const Element* elements, std::byte* block, size_t lane, size_t dim) {
  for (size_t d = 0; d < dim; ++d) {
    std::memcpy(block + (d * kKvBlock + lane) * sizeof(Element), elements + d, sizeof(Element));
  }
}

struct F16 {
  using Element = uint16_t;
  static void round(const float* src, Element* dst, size_t dim) {
    each_run(dim, [&](size_t i, size_t n) {
      vst1_u16(dst + i, vreinterpret_u16_f16(vcvt_f16_f32(load(src + i, n))));
    });
  }
};

struct BF16 {
  using Element = uint16_t;
  static void round(const float* src, Element* dst, size_t dim) {
    each_run(dim, [&](size_t i, size_t n) {
      const float32x4_t x = load(src + i, n);
      const uint32x4_t bits = vreinterpretq_u32_f32(x);
      const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
      const uint32x4_t nearest = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
      const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
      vst1_u16(dst + i, vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), nearest, quiet), 16));
    });
  }
};

template <class Type>
void store_key(const float* src, std::byte* page, size_t slot, size_t dim) {
  typename Type::Element elements[kMaxHeadDim + kLanes];  // whole registers are stored
  Type::round(src, elements, dim);
  scatter(elements, page + slot / kKvBlock * kKvBlock * dim * sizeof(elements[0]), slot % kKvBlock,
          dim);
}
template <class Type>
void store_value(const float* src, std::byte* page, size_t slot, size_t dim) {
  typename Type::Element elements[kMaxHeadDim + kLanes];
  Type::round(src, elements, dim);
  std::memcpy(page + slot * dim * sizeof(elements[0]), elements, dim * sizeof(elements[0]));
}

void store_key_f32(const float* src, std::byte* page, size_t slot, size_t dim) {
  scatter(src, page + slot / kKvBlock * kKvBlock * dim * sizeof(float), slot % kKvBlock, dim);
}

void round_bf16(const float* src, uint16_t* dst, size_t count) {
  const size_t whole = count / kLanes * kLanes;
  BF16::round(src, dst, whole);
  for (size_t i = whole; i < count; ++i) dst[i] = encode_bf16(src[i]);
}

// Returns the scale.
float round_q8(const float* src, int8_t* dst, size_t dim) {
  uint32x4_t most = vdupq_n_u32(0);
  each_run(dim,
           [&](size_t i, size_t n) { most = vmaxq_u32(most, magnitude_bits(load(src + i, n))); });
  const Q8Scale scale = q8_scale(largest_of(most));
  each_run(dim, [&](size_t i, size_t n) {
    const int32x4_t whole = q8_round(load(src + i, n), scale.inverse);
    vst1_s8(dst + i, narrow(whole, whole));
  });
  return scale.scale;
}

std::byte* q8_block(std::byte* page, size_t slot, size_t dim) {
  return page + slot / kKvBlock * kKvBlock * (dim + sizeof(float));
}
void put_scale(float scale, std::byte* block, size_t lane, size_t dim) {
  std::memcpy(block + kKvBlock * dim + lane * sizeof(scale), &scale, sizeof(scale));
}
void store_key_q8(const float* src, std::byte* page, size_t slot, size_t dim) {
  int8_t elements[kMaxHeadDim + 2 * kLanes];
  std::byte* block = q8_block(page, slot, dim);
  put_scale(round_q8(src, elements, dim), block, slot % kKvBlock, dim);
  scatter(elements, block, slot % kKvBlock, dim);
}
void store_value_q8(const float* src, std::byte* page, size_t slot, size_t dim) {
  int8_t elements[kMaxHeadDim + 2 * kLanes];
  std::byte* block = q8_block(page, slot, dim);
  put_scale(round_q8(src, elements, dim), block, slot % kKvBlock, dim);
  std::memcpy(block + slot % kKvBlock * dim, elements, dim);
}

}  // namespace

void fill_kv_store(KernelTable& table) {
  table.round_bf16 = round_bf16;
  table.store_key[kKvAt<KvType::kF32>] = store_key_f32;
  table.store_key[kKvAt<KvType::kF16>] = store_key<F16>;
  table.store_key[kKvAt<KvType::kBF16>] = store_key<BF16>;
  table.store_key[kKvAt<KvType::kQ8>] = store_key_q8;
  table.store_value[kKvAt<KvType::kF16>] = store_value<F16>;
  table.store_value[kKvAt<KvType::kBF16>] = store_value<BF16>;
  table.store_value[kKvAt<KvType::kQ8>] = store_value_q8;
}

}  // namespace phidias::neon
