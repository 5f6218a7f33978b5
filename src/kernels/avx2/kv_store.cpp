#include <cstring>

#include "kernels/avx2/q8.h"
#include "kernels/avx2/runs.h"
#include "kernels/isa.h"
#include "kernels/x86/fill.h"
#include "quant/float16.h"

namespace phidias::avx2 {
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
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i),
                       _mm256_cvtps_ph(load(src + i, n), _MM_FROUND_TO_NEAREST_INT));
    });
  }
};

struct BF16 {
  using Element = uint16_t;
  static void round(const float* src, Element* dst, size_t dim) {
    each_run(dim, [&](size_t i, size_t n) {
      const __m256 x = load(src + i, n);
      const __m256i bits = _mm256_castps_si256(x);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
      const __m256i nearest =
          _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
      const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
      const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
      const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(nearest, quiet, nan), 16);
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(dst + i),
          _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1)));
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
  __m256i most = _mm256_setzero_si256();
  each_run(dim, [&](size_t i, size_t n) {
    most = _mm256_max_epi32(most, magnitude_bits(load(src + i, n)));
  });
  const Q8Scale scale = q8_scale(largest_of(most));
  each_run(dim, [&](size_t i, size_t n) {
    const __m256i whole = q8_round(load(src + i, n), scale.inverse);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(dst + i), _mm_packs_epi16(words, words));
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
  int8_t elements[kMaxHeadDim + kLanes];
  std::byte* block = q8_block(page, slot, dim);
  put_scale(round_q8(src, elements, dim), block, slot % kKvBlock, dim);
  scatter(elements, block, slot % kKvBlock, dim);
}
void store_value_q8(const float* src, std::byte* page, size_t slot, size_t dim) {
  int8_t elements[kMaxHeadDim + kLanes];
  std::byte* block = q8_block(page, slot, dim);
  put_scale(round_q8(src, elements, dim), block, slot % kKvBlock, dim);
  std::memcpy(block + slot % kKvBlock * dim, elements, dim);
}

}  // namespace

void fill_kv_store(KernelTable& table) {
  table.round_bf16 = round_bf16;
  table.store_key[x86::kKvAt<KvType::kF32>] = store_key_f32;
  table.store_key[x86::kKvAt<KvType::kF16>] = store_key<F16>;
  table.store_key[x86::kKvAt<KvType::kBF16>] = store_key<BF16>;
  table.store_key[x86::kKvAt<KvType::kQ8>] = store_key_q8;
  table.store_value[x86::kKvAt<KvType::kF16>] = store_value<F16>;
  table.store_value[x86::kKvAt<KvType::kBF16>] = store_value<BF16>;
  table.store_value[x86::kKvAt<KvType::kQ8>] = store_value_q8;
}

}  // namespace phidias::avx2
