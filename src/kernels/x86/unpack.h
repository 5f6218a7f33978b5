// Groups of 32 weights out of their blocks, with AVX2. Blocks are read by offset, since they may
// lie at any address. Included by the folders of the instruction sets that have it; everything here
// is local to the including file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "quant/q4.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace phidias {
namespace {
namespace x86 {

inline __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

inline float half_to_float(const void* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// 16 bytes of two nibbles each: the low ones, then the high ones.
inline __m256i nibbles(const std::byte* packed) {
  const __m256i both = _mm256_broadcastsi128_si256(load16(packed));
  const __m256i shifted = _mm256_srlv_epi64(both, _mm256_setr_epi64x(0, 0, 4, 4));
  return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
}

// 16 in byte i where bit i of `high` is set.
inline __m256i fifth_bits(const std::byte* high) {
  int32_t bits;
  std::memcpy(&bits, high, sizeof(bits));
  // Each byte of a lane of 16 gets the one of its bits, then is tested against its own bit.
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(bits),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i own = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201U));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

// The 8 codes for scales in the low half, for minimums in the high half, of Q4_K and Q5_K.
inline __m128i k_codes(const std::byte* packed) {
  uint32_t a, b, c;
  std::memcpy(&a, packed, 4);
  std::memcpy(&b, packed + 4, 4);
  std::memcpy(&c, packed + 8, 4);
  constexpr uint32_t kLow6 = 0x3F3F3F3FU;
  constexpr uint32_t kLow4 = 0x0F0F0F0FU;
  constexpr uint32_t kTop2 = 0x30303030U;
  const uint32_t scales_high = (c & kLow4) | ((a >> 2) & kTop2);
  const uint32_t minimums_high = ((c >> 4) & kLow4) | ((b >> 2) & kTop2);
  const uint64_t scales = uint64_t{scales_high} << 32 | (a & kLow6);
  const uint64_t minimums = uint64_t{minimums_high} << 32 | (b & kLow6);
  return _mm_set_epi64x(static_cast<int64_t>(minimums), static_cast<int64_t>(scales));
}

inline __m256 bytes_to_floats(__m128i bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

// How a format's groups are unpacked. Eight groups are an octet: a block of the K formats, eight
// blocks of the others.
//   kBias     what is subtracted from the unsigned quants
//   kBits     of the unsigned quants
//   kMinimum  whether a group has a minimum
//   kCodes    whether each half of a group has a signed code of its own beside the block's scale
//   quants    the 32 unsigned quants of group s of a block
// For value = scale * (code *) (quant - kBias) + minimum, scale and minimum of n groups of an
// octet:
//   scales(octet, n, minimums)
template <class F>
struct Unpack;

// Formats with one block a group: F16 numbers at the start of each block.
template <class F, int kBitCount, int kBiasValue, bool kHasMinimum>
struct UnpackSmall {
  using Block = typename F::Block;
  static constexpr int kBits = kBitCount;
  static constexpr int kBias = kBiasValue;
  static constexpr bool kMinimum = kHasMinimum;
  static constexpr bool kCodes = false;
  static constexpr size_t kGroupsInBlock = 1;

  // The numbers of eight blocks: that of block i is word i of the 16 bytes that begin i words
  // before it.
  template <size_t... kBlocks>
  [[gnu::always_inline]] static inline __m128i words(const std::byte* first,
                                                     std::index_sequence<kBlocks...>) {
    __m128i all = load16(first);
    ((all = _mm_blend_epi16(all, load16(first + (kBlocks + 1) * (sizeof(Block) - 2)),
                            1 << (kBlocks + 1))),
     ...);
    return all;
  }
  [[gnu::always_inline]] static inline __m256 halves(const std::byte* octet, size_t offset,
                                                     size_t n) {
    if (n == 8) return _mm256_cvtph_ps(words(octet + offset, std::make_index_sequence<7>()));
    alignas(16) uint16_t bits[8] = {};
    for (size_t i = 0; i < n; ++i)
      std::memcpy(bits + i, octet + i * sizeof(Block) + offset, sizeof(uint16_t));
    return _mm256_cvtph_ps(load16(bits));
  }
  [[gnu::always_inline]] static inline __m256 scales(const std::byte* octet, size_t n,
                                                     __m256& minimums) {
    if constexpr (kMinimum) minimums = halves(octet, offsetof(Block, minimum), n);
    return halves(octet, offsetof(Block, scale), n);
  }
};

// Formats with eight groups a block, scales and minimums in codes of 6 bits. The products are
// exact.
template <class F, int kBitCount>
struct UnpackK {
  using Block = typename F::Block;
  static constexpr int kBits = kBitCount;
  static constexpr int kBias = 0;
  static constexpr bool kMinimum = true;
  static constexpr bool kCodes = false;
  static constexpr size_t kGroupsInBlock = 8;

  [[gnu::always_inline]] static inline __m256 scales(const std::byte* octet, size_t,
                                                     __m256& minimums) {
    const __m128i codes = k_codes(octet + offsetof(Block, codes));
    const __m256 scale = _mm256_set1_ps(half_to_float(octet + offsetof(Block, scale)));
    const __m256 minimum = _mm256_set1_ps(-half_to_float(octet + offsetof(Block, minimum)));
    minimums = _mm256_mul_ps(minimum, bytes_to_floats(_mm_unpackhi_epi64(codes, codes)));
    return _mm256_mul_ps(scale, bytes_to_floats(codes));
  }
  // The same of eight rows' octets: the eight rows in the lanes, the eight groups in turn.
  [[gnu::always_inline]] static inline void scales_of_rows(const std::byte* const (&octets)[8],
                                                           __m256* scales, __m256* minimums) {
    static_assert(offsetof(Block, scale) == 0 && offsetof(Block, minimum) == 2 &&
                  offsetof(Block, codes) == 4);
    __m256i m[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i)
      m[i] = _mm256_set_m128i(load16(octets[i + 4]), load16(octets[i]));
    const __m256i low01 = _mm256_unpacklo_epi32(m[0], m[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(m[2], m[3]);
    const __m256i high01 = _mm256_unpackhi_epi32(m[0], m[1]);
    const __m256i high23 = _mm256_unpackhi_epi32(m[2], m[3]);
    const __m256i numbers = _mm256_unpacklo_epi64(low01, low23);
    const __m256i a = _mm256_unpackhi_epi64(low01, low23);
    const __m256i b = _mm256_unpacklo_epi64(high01, high23);
    const __m256i c = _mm256_unpackhi_epi64(high01, high23);
    const __m256i halves = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(_mm256_and_si256(numbers, _mm256_set1_epi32(0xFFFF)),
                            _mm256_srli_epi32(numbers, 16)),
        0xD8);
    const __m256 scale = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    const __m256 minimum =
        _mm256_xor_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), _mm256_set1_ps(-0.0F));
    const __m256i low6 = _mm256_set1_epi32(0x3F3F3F3F);
    const __m256i low4 = _mm256_set1_epi32(0x0F0F0F0F);
    const __m256i top2 = _mm256_set1_epi32(0x30303030);
    const auto high_codes = [&](__m256i nibbles_of, __m256i tops) {
      return _mm256_or_si256(_mm256_and_si256(nibbles_of, low4),
                             _mm256_and_si256(_mm256_srli_epi32(tops, 2), top2));
    };
    const __m256i scale_codes[2] = {_mm256_and_si256(a, low6), high_codes(c, a)};
    const __m256i minimum_codes[2] = {_mm256_and_si256(b, low6),
                                      high_codes(_mm256_srli_epi32(c, 4), b)};
    const __m256i byte = _mm256_set1_epi32(0xFF);
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) {
      const auto code = [&](__m256i of_four) {
        return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(of_four, s % 4 * 8), byte));
      };
      scales[s] = _mm256_mul_ps(scale, code(scale_codes[s / 4]));
      minimums[s] = _mm256_mul_ps(minimum, code(minimum_codes[s / 4]));
    }
  }
  static inline __m256i nibble(const std::byte* block, size_t s) {
    const __m256i run = load32(block + offsetof(Block, quants) + s / 2 * 32);
    const __m256i shifted = s % 2 == 0 ? run : _mm256_srli_epi16(run, 4);
    return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
  }
};

template <>
struct Unpack<Q8_0> : UnpackSmall<Q8_0, 8, 128, false> {
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t) {
    return _mm256_xor_si256(load32(block + offsetof(Block, quants)), _mm256_set1_epi8(-128));
  }
};
template <>
struct Unpack<Q4_0> : UnpackSmall<Q4_0, 4, 8, false> {
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t) {
    return nibbles(block + offsetof(Block, quants));
  }
};
template <>
struct Unpack<Q4_1> : UnpackSmall<Q4_1, 4, 0, true> {
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t) {
    return nibbles(block + offsetof(Block, quants));
  }
};
template <>
struct Unpack<Q5_0> : UnpackSmall<Q5_0, 5, 16, false> {
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t) {
    return _mm256_or_si256(nibbles(block + offsetof(Block, quants)),
                           fifth_bits(block + offsetof(Block, high)));
  }
};
template <>
struct Unpack<Q5_1> : UnpackSmall<Q5_1, 5, 0, true> {
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t) {
    return _mm256_or_si256(nibbles(block + offsetof(Block, quants)),
                           fifth_bits(block + offsetof(Block, high)));
  }
};
template <>
struct Unpack<Q4_K> : UnpackK<Q4_K, 4> {
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t s) {
    return nibble(block, s);
  }
};
template <>
struct Unpack<Q5_K> : UnpackK<Q5_K, 5> {
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t s) {
    const __m256i high = load32(block + offsetof(Block, high));
    const __m256i bit = _mm256_and_si256(high, _mm256_set1_epi8(static_cast<char>(1U << s)));
    const __m256i unset = _mm256_cmpeq_epi8(bit, _mm256_setzero_si256());
    return _mm256_or_si256(nibble(block, s), _mm256_andnot_si256(unset, _mm256_set1_epi8(16)));
  }
};
template <>
struct Unpack<Q6_K> {
  using Block = Q6_K::Block;
  static constexpr int kBits = 6;
  static constexpr int kBias = 32;
  static constexpr bool kMinimum = false;
  static constexpr bool kCodes = true;
  static constexpr size_t kGroupsInBlock = 8;

  [[gnu::always_inline]] static inline __m256 scales(const std::byte* octet, size_t, __m256&) {
    return _mm256_set1_ps(half_to_float(octet + offsetof(Block, scale)));
  }
  // Group s: quarter s % 4 of its run of 128.
  [[gnu::always_inline]] static inline __m256i quants(const std::byte* block, size_t s) {
    const size_t quarter = s % 4;
    const __m256i low = load32(block + offsetof(Block, low) + s / 4 * 64 + quarter % 2 * 32);
    const __m256i high = load32(block + offsetof(Block, high) + s / 4 * 32);
    const __m256i nibble = quarter < 2 ? low : _mm256_srli_epi16(low, 4);
    // The two bits to places 4 and 5.
    const __m256i top = quarter == 0   ? _mm256_slli_epi16(high, 4)
                        : quarter == 1 ? _mm256_slli_epi16(high, 2)
                        : quarter == 2 ? high
                                       : _mm256_srli_epi16(high, 2);
    return _mm256_or_si256(_mm256_and_si256(nibble, _mm256_set1_epi8(0x0F)),
                           _mm256_and_si256(top, _mm256_set1_epi8(0x30)));
  }
};

template <class Block>
inline int8_t code_of(const std::byte* block, size_t i) {
  return static_cast<int8_t>(block[offsetof(Block, codes) + i]);
}

// A row as floats, the same values as F::decode.
template <class F>
void decode_row(const std::byte* row, float* dst, size_t cols) {
  using U = Unpack<F>;
  using Block = typename U::Block;
  constexpr size_t kOctetBytes = sizeof(Block) * 8 / U::kGroupsInBlock;
  for (size_t g = 0; g < cols / 32; g += 8) {
    const std::byte* octet = row + g / 8 * kOctetBytes;
    const size_t n = cols / 32 - g < 8 ? cols / 32 - g : 8;
    alignas(32) float scale[8];
    alignas(32) float minimum[8];
    __m256 minimums = _mm256_setzero_ps();
    _mm256_store_ps(scale, U::scales(octet, n, minimums));
    _mm256_store_ps(minimum, minimums);
    for (size_t s = 0; s < n; ++s) {
      const std::byte* block = octet + s / U::kGroupsInBlock * sizeof(Block);
      alignas(32) uint8_t quants[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(quants),
                         U::quants(block, s % U::kGroupsInBlock));
      for (size_t i = 0; i < 32; i += 8) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(quants + i));
        const __m256i whole =
            _mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(U::kBias));
        float step = scale[s];
        if constexpr (U::kCodes) step *= static_cast<float>(code_of<Block>(block, 2 * s + i / 16));
        __m256 value = _mm256_mul_ps(_mm256_set1_ps(step), _mm256_cvtepi32_ps(whole));
        if constexpr (U::kMinimum) value = _mm256_add_ps(value, _mm256_set1_ps(minimum[s]));
        _mm256_storeu_ps(dst + (g + s) * 32 + i, value);
      }
    }
  }
}

// Row `row` of a tile of Q4, the same values as Q4::decode_row.
inline void decode_q4(const std::byte* tile, size_t row, float* dst, size_t cols) {
  constexpr int kChunkBytes = 4 * Q4::kTileRows;
  const __m256i places =
      _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(kChunkBytes));
  const __m256i low = _mm256_set1_epi8(15);
  for (size_t begin = 0; begin < cols; begin += Q4::kBlockValues, tile += sizeof(Q4::Block)) {
    const auto code = static_cast<int32_t>(tile[offsetof(Q4::Block, scales) + row]);
    const __m256 scale = _mm256_castsi256_ps(
        _mm256_set1_epi32((code << Q4::kScaleShift) + static_cast<int32_t>(Q4::kScaleBits)));
    const auto pair = static_cast<uint8_t>(tile[offsetof(Q4::Block, offsets) + row % 8]);
    const uint8_t place = Q4::kOffsets[row < 8 ? pair & 15 : pair >> 4];
    const __m256 offset = _mm256_set1_ps(static_cast<float>(place) * Q4::kOffsetUnit);
    const __m256i both = _mm256_i32gather_epi32(
        reinterpret_cast<const int*>(tile + offsetof(Q4::Block, quants) + row * 4), places, 1);
    alignas(32) uint8_t quants[Q4::kBlockValues];
    _mm256_store_si256(reinterpret_cast<__m256i*>(quants), _mm256_and_si256(both, low));
    _mm256_store_si256(reinterpret_cast<__m256i*>(quants + Q4::kHalfValues),
                       _mm256_and_si256(_mm256_srli_epi16(both, 4), low));
    for (size_t i = 0; i < Q4::kBlockValues; i += 8) {
      const __m256 values =
          bytes_to_floats(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(quants + i)));
      _mm256_storeu_ps(dst + begin + i, _mm256_mul_ps(scale, _mm256_sub_ps(values, offset)));
    }
  }
}

}  // namespace x86
}  // namespace
}  // namespace phidias
