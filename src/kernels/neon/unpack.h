// Groups of 32 weights out of their blocks. Blocks are read by offset, since they may lie at any
// address. Local to the including file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/neon/vec.h"
#include "quant/q4.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace phidias::neon {
namespace {

inline uint8x16_t load16(const std::byte* p) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(p));
}
inline int8x16_t load16(const int8_t* p) { return vld1q_s8(p); }

inline uint16_t load_word(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return bits;
}
inline float half_to_float(const std::byte* p) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(load_word(p)))), 0);
}

// The quants of a group, or its activations.
struct Group {
  int8x16_t halves[2];

  Group(int8x16_t first, int8x16_t second) : halves{first, second} {}
  explicit Group(const int8_t* values) : halves{load16(values), load16(values + 16)} {}
  Group(uint8x16_t first, uint8x16_t second, int8_t bias)
      : halves{vsubq_s8(vreinterpretq_s8_u8(first), vdupq_n_s8(bias)),
               vsubq_s8(vreinterpretq_s8_u8(second), vdupq_n_s8(bias))} {}
};

// Eight floats: a number of each group of an octet.
struct Numbers {
  float32x4_t halves[2];
};

// 16 bytes of two nibbles each.
struct Nibbles {
  uint8x16_t low;
  uint8x16_t high;

  explicit Nibbles(const std::byte* packed) {
    const uint8x16_t both = load16(packed);
    low = vandq_u8(both, vdupq_n_u8(15));
    high = vshrq_n_u8(both, 4);
  }
};

// Bit i of 16 in byte i, as 16.
inline uint8x16_t fifth_bits(const std::byte* high) {
  const uint8x16_t own = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  const auto spread = [](std::byte bits) { return vdup_n_u8(static_cast<uint8_t>(bits)); };
  const uint8x16_t set = vtstq_u8(vcombine_u8(spread(high[0]), spread(high[1])), own);
  return vandq_u8(set, vdupq_n_u8(16));
}

inline Numbers widen_bytes(uint64_t bytes) {
  const uint16x8_t words = vmovl_u8(vcreate_u8(bytes));
  return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(words))),
           vcvtq_f32_u32(vmovl_u16(vget_high_u16(words)))}};
}
inline Numbers times(float scale, Numbers x) {
  return {{vmulq_n_f32(x.halves[0], scale), vmulq_n_f32(x.halves[1], scale)}};
}

// How a format's groups are unpacked. Eight groups are an octet: a block of the K formats, eight
// blocks of the others.
//   kLargest  magnitude of the quants
//   kMinimum  whether a group has a minimum
//   kCodes    whether each half of a group has a signed code of its own beside the block's scale
//   quants    the 32 quants of group s of a block
// For value = scale * (code *) quant + minimum, scale and minimum of n groups of an octet:
//   scales(octet, n, minimums)
template <class F>
struct Unpack;

// Formats with one block a group: F16 numbers at the start of each block.
template <class F, int kLargestQuant, bool kHasMinimum>
struct UnpackSmall {
  using Block = typename F::Block;
  static constexpr int kLargest = kLargestQuant;
  static constexpr bool kMinimum = kHasMinimum;
  static constexpr bool kCodes = false;
  static constexpr size_t kGroupsInBlock = 1;

  template <size_t... kBlocks>
  [[gnu::always_inline]] static inline uint16x8_t words(const std::byte* first,
                                                        std::index_sequence<kBlocks...>) {
    uint16x8_t all = vdupq_n_u16(0);
    ((all = vsetq_lane_u16(load_word(first + kBlocks * sizeof(Block)), all, kBlocks)), ...);
    return all;
  }
  [[gnu::always_inline]] static inline Numbers floats(const std::byte* octet, size_t offset,
                                                      size_t n) {
    uint16x8_t all;
    if (n == 8) {
      all = words(octet + offset, std::make_index_sequence<8>());
    } else {
      uint16_t bits[8] = {};
      for (size_t i = 0; i < n; ++i) bits[i] = load_word(octet + i * sizeof(Block) + offset);
      all = vld1q_u16(bits);
    }
    return {{vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(all))),
             vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(all)))}};
  }
  [[gnu::always_inline]] static inline Numbers scales(const std::byte* octet, size_t n,
                                                      Numbers& minimums) {
    if constexpr (kMinimum) minimums = floats(octet, offsetof(Block, minimum), n);
    return floats(octet, offsetof(Block, scale), n);
  }
};

// Formats with eight groups a block, scales and minimums in codes of 6 bits. The products are
// exact.
template <class F, int kLargestQuant>
struct UnpackK {
  using Block = typename F::Block;
  static constexpr int kLargest = kLargestQuant;
  static constexpr bool kMinimum = true;
  static constexpr bool kCodes = false;
  static constexpr size_t kGroupsInBlock = 8;

  [[gnu::always_inline]] static inline Numbers scales(const std::byte* octet, size_t,
                                                      Numbers& minimums) {
    uint32_t a, b, c;
    std::memcpy(&a, octet + offsetof(Block, codes), 4);
    std::memcpy(&b, octet + offsetof(Block, codes) + 4, 4);
    std::memcpy(&c, octet + offsetof(Block, codes) + 8, 4);
    constexpr uint32_t kLow6 = 0x3F3F3F3FU;
    constexpr uint32_t kLow4 = 0x0F0F0F0FU;
    constexpr uint32_t kTop2 = 0x30303030U;
    const uint32_t scales_high = (c & kLow4) | ((a >> 2) & kTop2);
    const uint32_t minimums_high = ((c >> 4) & kLow4) | ((b >> 2) & kTop2);
    minimums = times(-half_to_float(octet + offsetof(Block, minimum)),
                     widen_bytes(uint64_t{minimums_high} << 32 | (b & kLow6)));
    return times(half_to_float(octet + offsetof(Block, scale)),
                 widen_bytes(uint64_t{scales_high} << 32 | (a & kLow6)));
  }
  // Half `half` of the nibbles of group s.
  static inline uint8x16_t nibble(const std::byte* block, size_t s, size_t half) {
    const uint8x16_t run = load16(block + offsetof(Block, quants) + s / 2 * 32 + half * 16);
    return s % 2 == 0 ? vandq_u8(run, vdupq_n_u8(15)) : vshrq_n_u8(run, 4);
  }
};

template <>
struct Unpack<Q8_0> : UnpackSmall<Q8_0, 128, false> {
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t) {
    return Group(reinterpret_cast<const int8_t*>(block + offsetof(Block, quants)));
  }
};
template <>
struct Unpack<Q4_0> : UnpackSmall<Q4_0, 8, false> {
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t) {
    const Nibbles nibbles(block + offsetof(Block, quants));
    return Group(nibbles.low, nibbles.high, 8);
  }
};
template <>
struct Unpack<Q4_1> : UnpackSmall<Q4_1, 15, true> {
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t) {
    const Nibbles nibbles(block + offsetof(Block, quants));
    return Group(nibbles.low, nibbles.high, 0);
  }
};
template <class Block>
[[gnu::always_inline]] inline Group quants_of_5_bits(const std::byte* block, int8_t bias) {
  const Nibbles nibbles(block + offsetof(Block, quants));
  const std::byte* high = block + offsetof(Block, high);
  return Group(vorrq_u8(nibbles.low, fifth_bits(high)),
               vorrq_u8(nibbles.high, fifth_bits(high + 2)), bias);
}
template <>
struct Unpack<Q5_0> : UnpackSmall<Q5_0, 16, false> {
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t) {
    return quants_of_5_bits<Block>(block, 16);
  }
};
template <>
struct Unpack<Q5_1> : UnpackSmall<Q5_1, 31, true> {
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t) {
    return quants_of_5_bits<Block>(block, 0);
  }
};
template <>
struct Unpack<Q4_K> : UnpackK<Q4_K, 15> {
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t s) {
    return Group(nibble(block, s, 0), nibble(block, s, 1), 0);
  }
};
template <>
struct Unpack<Q5_K> : UnpackK<Q5_K, 31> {
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t s) {
    const uint8x16_t own = vdupq_n_u8(static_cast<uint8_t>(1U << s));
    const auto half = [&](size_t h) {
      const uint8x16_t set = vtstq_u8(load16(block + offsetof(Block, high) + h * 16), own);
      return vorrq_u8(nibble(block, s, h), vandq_u8(set, vdupq_n_u8(16)));
    };
    return Group(half(0), half(1), 0);
  }
};
template <>
struct Unpack<Q6_K> {
  using Block = Q6_K::Block;
  static constexpr int kLargest = 32;
  static constexpr bool kMinimum = false;
  static constexpr bool kCodes = true;
  static constexpr size_t kGroupsInBlock = 8;

  [[gnu::always_inline]] static inline Numbers scales(const std::byte* octet, size_t, Numbers&) {
    const float32x4_t scale = vdupq_n_f32(half_to_float(octet + offsetof(Block, scale)));
    return {{scale, scale}};
  }
  // Group s: quarter s % 4 of its run of 128.
  [[gnu::always_inline]] static inline Group quants(const std::byte* block, size_t s) {
    const size_t quarter = s % 4;
    const std::byte* lows = block + offsetof(Block, low) + s / 4 * 64 + quarter % 2 * 32;
    const std::byte* highs = block + offsetof(Block, high) + s / 4 * 32;
    // The two bits to the lowest places.
    const int8x16_t places = vdupq_n_s8(static_cast<int8_t>(-2 * static_cast<int>(quarter)));
    const auto half = [&](size_t h) {
      const uint8x16_t low = load16(lows + h * 16);
      const uint8x16_t nibble = quarter < 2 ? vandq_u8(low, vdupq_n_u8(15)) : vshrq_n_u8(low, 4);
      const uint8x16_t top = vandq_u8(vshlq_u8(load16(highs + h * 16), places), vdupq_n_u8(3));
      return vorrq_u8(nibble, vshlq_n_u8(top, 4));
    };
    return Group(half(0), half(1), 32);
  }
};

template <class Block>
inline int8_t code_of(const std::byte* block, size_t i) {
  return static_cast<int8_t>(block[offsetof(Block, codes) + i]);
}

// 16 bytes as floats.
struct Floats16 {
  float32x4_t quarters[4];

  explicit Floats16(int8x16_t bytes) {
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
    const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
    quarters[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    quarters[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(low)));
    quarters[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    quarters[3] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)));
  }
};

// A row as floats, the same values as F::decode.
template <class F>
void decode_row(const std::byte* row, float* dst, size_t cols) {
  using U = Unpack<F>;
  using Block = typename U::Block;
  constexpr size_t kOctetBytes = sizeof(Block) * 8 / U::kGroupsInBlock;
  for (size_t g = 0; g < cols / 32; g += 8) {
    const std::byte* octet = row + g / 8 * kOctetBytes;
    const size_t n = cols / 32 - g < 8 ? cols / 32 - g : 8;
    Numbers minimums = {};
    const Numbers scales = U::scales(octet, n, minimums);
    float scale[8], minimum[8];
    for (size_t half = 0; half < 2; ++half) {
      vst1q_f32(scale + half * 4, scales.halves[half]);
      vst1q_f32(minimum + half * 4, minimums.halves[half]);
    }
    for (size_t s = 0; s < n; ++s) {
      const std::byte* block = octet + s / U::kGroupsInBlock * sizeof(Block);
      const Group quants = U::quants(block, s % U::kGroupsInBlock);
      for (size_t half = 0; half < 2; ++half) {
        float step = scale[s];
        if constexpr (U::kCodes) step *= static_cast<float>(code_of<Block>(block, 2 * s + half));
        const Floats16 whole(quants.halves[half]);
        for (size_t i = 0; i < 4; ++i) {
          float32x4_t value = vmulq_n_f32(whole.quarters[i], step);
          if constexpr (U::kMinimum) value = vaddq_f32(value, vdupq_n_f32(minimum[s]));
          vst1q_f32(dst + (g + s) * 32 + half * 16 + i * 4, value);
        }
      }
    }
  }
}

// Row `row` of a tile of Q4, the same values as Q4::decode_row.
inline void decode_q4(const std::byte* tile, size_t row, float* dst, size_t cols) {
  constexpr size_t kChunkBytes = 4 * Q4::kTileRows;
  for (size_t begin = 0; begin < cols; begin += Q4::kBlockValues, tile += sizeof(Q4::Block)) {
    const auto code = static_cast<uint32_t>(tile[offsetof(Q4::Block, scales) + row]);
    const float32x4_t scale =
        vreinterpretq_f32_u32(vdupq_n_u32((code << Q4::kScaleShift) + Q4::kScaleBits));
    const auto pair = static_cast<uint8_t>(tile[offsetof(Q4::Block, offsets) + row % 8]);
    const uint8_t place = Q4::kOffsets[row < 8 ? pair & 15 : pair >> 4];
    const float32x4_t offset = vdupq_n_f32(static_cast<float>(place) * Q4::kOffsetUnit);
    for (size_t half = 0; half < 2; ++half) {
      // Four chunks of the row side by side.
      std::byte packed[16];
      for (size_t k = 0; k < 4; ++k) {
        std::memcpy(packed + k * 4,
                    tile + offsetof(Q4::Block, quants) + (half * 4 + k) * kChunkBytes + row * 4, 4);
      }
      const Nibbles nibbles(packed);
      const Floats16 low(vreinterpretq_s8_u8(nibbles.low));
      const Floats16 high(vreinterpretq_s8_u8(nibbles.high));
      for (size_t i = 0; i < 4; ++i) {
        float* to = dst + begin + half * 16 + i * 4;
        vst1q_f32(to, vmulq_f32(scale, vsubq_f32(low.quarters[i], offset)));
        vst1q_f32(to + Q4::kHalfValues, vmulq_f32(scale, vsubq_f32(high.quarters[i], offset)));
      }
    }
  }
}

}  // namespace
}  // namespace phidias::neon
