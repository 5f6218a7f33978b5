// Rounded keys and values into their pages (kv_types.h), for the instruction sets that round by
// registers. Local to the including file.
//
// R rounds one vector: R::Element, and R::round(src, dst, dim), which may store whole registers: up
// to kSpare elements more. With a scale (q8) it returns the scale.
#pragma once

#include <cstring>

#include "kernels/places.h"
#include "quant/float16.h"

namespace phidias::generic {
namespace {

constexpr size_t kSpare = 8;

// The elements of one key lie kKvBlock apart.
template <typename Element>
void scatter(const Element* elements, std::byte* block, size_t lane, size_t dim) {
  for (size_t d = 0; d < dim; ++d) {
    std::memcpy(block + (d * kKvBlock + lane) * sizeof(Element), elements + d, sizeof(Element));
  }
}

void store_key_f32(const float* src, std::byte* page, size_t slot, size_t dim) {
  scatter(src, page + slot / kKvBlock * kKvBlock * dim * sizeof(float), slot % kKvBlock, dim);
}
template <class R>
void store_key(const float* src, std::byte* page, size_t slot, size_t dim) {
  typename R::Element elements[kMaxHeadDim + kSpare];
  R::round(src, elements, dim);
  scatter(elements, page + slot / kKvBlock * kKvBlock * dim * sizeof(elements[0]), slot % kKvBlock,
          dim);
}
template <class R>
void store_value(const float* src, std::byte* page, size_t slot, size_t dim) {
  typename R::Element elements[kMaxHeadDim + kSpare];
  R::round(src, elements, dim);
  std::memcpy(page + slot * dim * sizeof(elements[0]), elements, dim * sizeof(elements[0]));
}

// The block of a slot, whose scale is put behind its vectors.
std::byte* scaled_block(std::byte* page, size_t slot, size_t dim, float scale) {
  std::byte* block = page + slot / kKvBlock * kKvBlock * (dim + sizeof(scale));
  std::memcpy(block + kKvBlock * dim + slot % kKvBlock * sizeof(scale), &scale, sizeof(scale));
  return block;
}
template <class R>
void store_scaled_key(const float* src, std::byte* page, size_t slot, size_t dim) {
  typename R::Element elements[kMaxHeadDim + kSpare];
  std::byte* block = scaled_block(page, slot, dim, R::round(src, elements, dim));
  scatter(elements, block, slot % kKvBlock, dim);
}
template <class R>
void store_scaled_value(const float* src, std::byte* page, size_t slot, size_t dim) {
  typename R::Element elements[kMaxHeadDim + kSpare];
  std::byte* block = scaled_block(page, slot, dim, R::round(src, elements, dim));
  std::memcpy(block + slot % kKvBlock * dim, elements, dim);
}

template <class BF16, size_t kLanes>
void round_bf16(const float* src, uint16_t* dst, size_t count) {
  const size_t whole = count / kLanes * kLanes;
  BF16::round(src, dst, whole);
  for (size_t i = whole; i < count; ++i) dst[i] = encode_bf16(src[i]);
}

template <class V, class F16, class BF16, class Q8>
void fill_kv_store(KernelTable& table) {
  static_assert(V::kLanes <= kSpare);
  table.round_bf16 = round_bf16<BF16, V::kLanes>;
  table.store_key[kKvAt<KvType::kF32>] = store_key_f32;
  table.store_key[kKvAt<KvType::kF16>] = store_key<F16>;
  table.store_key[kKvAt<KvType::kBF16>] = store_key<BF16>;
  table.store_key[kKvAt<KvType::kQ8>] = store_scaled_key<Q8>;
  table.store_value[kKvAt<KvType::kF16>] = store_value<F16>;
  table.store_value[kKvAt<KvType::kBF16>] = store_value<BF16>;
  table.store_value[kKvAt<KvType::kQ8>] = store_scaled_value<Q8>;
}

}  // namespace
}  // namespace phidias::generic
