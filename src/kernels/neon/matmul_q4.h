// matmul_q8 of Q4, whose rows lie sixteen by sixteen as a panel has them, over the integer products
// A of an instruction set (integers.h). Few activation rows go through the tiles as they lie.
#pragma once

#include "kernels/neon/matmul_q8.h"

namespace phidias::neon {
namespace {

// Scales and offsets of a block's sixteen rows; the offsets negative.
struct Q4Numbers {
  float32x4_t scales[kPanelVectors];
  float32x4_t offsets[kPanelVectors];

  explicit Q4Numbers(const std::byte* block) {
    const uint8x16_t codes = load16(block + offsetof(Q4::Block, scales));
    const uint8x8_t packed =
        vld1_u8(reinterpret_cast<const uint8_t*>(block + offsetof(Q4::Block, offsets)));
    const uint8x16_t indices = vcombine_u8(vand_u8(packed, vdup_n_u8(15)), vshr_n_u8(packed, 4));
    const uint8x16_t places = vqtbl1q_u8(vld1q_u8(Q4::kOffsets), indices);
    uint32x4_t wide_codes[4], wide_places[4];
    widen(codes, wide_codes);
    widen(places, wide_places);
#pragma GCC unroll 4
    for (size_t v = 0; v < kPanelVectors; ++v) {
      scales[v] = vreinterpretq_f32_u32(
          vaddq_u32(vshlq_n_u32(wide_codes[v], Q4::kScaleShift), vdupq_n_u32(Q4::kScaleBits)));
      offsets[v] = vmulq_n_f32(vcvtq_f32_u32(wide_places[v]), -Q4::kOffsetUnit);
    }
  }

 private:
  [[gnu::always_inline]] static inline void widen(uint8x16_t bytes, uint32x4_t (&words)[4]) {
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes));
    const uint16x8_t high = vmovl_u8(vget_high_u8(bytes));
    words[0] = vmovl_u16(vget_low_u16(low));
    words[1] = vmovl_u16(vget_high_u16(low));
    words[2] = vmovl_u16(vget_low_u16(high));
    words[3] = vmovl_u16(vget_high_u16(high));
  }
};

constexpr int kQ4Largest = 15;

[[gnu::always_inline]] inline uint8x16_t q4_bytes(const std::byte* block, size_t step, size_t v) {
  return load16(block + offsetof(Q4::Block, quants) + (step * kPanelOuts + v * 4) * 4);
}

// One of the two groups of a block, as it lies.
template <size_t kOfPair>
struct Q4Weights {
  const std::byte* block;
  [[gnu::always_inline]] inline int8x16_t operator()(size_t step, size_t v) const {
    const uint8x16_t both = q4_bytes(block, step, v);
    return vreinterpretq_s8_u8(kOfPair == 0 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4));
  }
};

// The integer sums of group kOfPair of a block, as floats: [kRows][4].
template <class A, size_t kOfPair, size_t kRows>
[[gnu::always_inline]] inline void q4_sums(const std::byte* block, const int8_t* const (&x)[kRows],
                                           float32x4_t (&floats)[kRows * kPanelVectors]) {
  int32x4_t sums[kRows * kPanelVectors];
  A::template sums<kQ4Largest, 2>(Q4Weights<kOfPair>{block}, x, 0, sums);
#pragma GCC unroll 16
  for (size_t i = 0; i < kRows * kPanelVectors; ++i) floats[i] = vcvtq_f32_s32(sums[i]);
}

// First terms of both groups of block `block`, added to the chains.
template <class A, size_t kRows>
[[gnu::always_inline]] inline void add_pair(const std::byte* at, size_t block,
                                            const QuantizedRows (&x)[kRows],
                                            float32x4_t (&chains)[kRows * kPanelVectors]) {
  const int8_t* low[kRows];
  const int8_t* high[kRows];
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) {
    low[r] = x[r].values + 2 * block * kQuantGroup;
    high[r] = low[r] + kQuantGroup;
  }
  float32x4_t part[kRows * kPanelVectors], second[kRows * kPanelVectors];
  q4_sums<A, 0>(at, low, part);
  q4_sums<A, 1>(at, high, second);
  const Q4Numbers numbers(at);
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) {
    const float* scales = x[r].scales + 2 * block;
    const float sum = x[r].sums[2 * block] + x[r].sums[2 * block + 1];
#pragma GCC unroll 4
    for (size_t v = 0; v < kPanelVectors; ++v) {
      const size_t i = r * kPanelVectors + v;
      float32x4_t total = vmulq_n_f32(part[i], scales[0]);
      total = vfmaq_n_f32(total, second[i], scales[1]);
      total = vfmaq_n_f32(total, numbers.offsets[v], sum);
      chains[i] = vfmaq_f32(chains[i], total, numbers.scales[v]);
    }
  }
}

// The second term of group kOfPair, which begins at `values`, added to the chains of its row.
template <class A, size_t kOfPair>
void add_second(const std::byte* at, const int8_t* values, float scale, float sum,
                float32x4_t* chains) {
  const int8_t* const x[1] = {values};
  float32x4_t part[kPanelVectors];
  q4_sums<A, kOfPair>(at, x, part);
  const Q4Numbers numbers(at);
  for (size_t v = 0; v < kPanelVectors; ++v) {
    const float32x4_t total = vfmaq_n_f32(vmulq_n_f32(part[v], scale), numbers.offsets[v], sum);
    chains[v] = vfmaq_f32(chains[v], total, numbers.scales[v]);
  }
}

template <class A, size_t kRows>
void multiply_few_rows_q4(const MatmulArgs& args) {
  constexpr size_t kChunkBlocks = kChunkColumns / Q4::kBlockValues;
  const size_t blocks = args.cols / Q4::kBlockValues;
  QuantizedRows x[kRows];
  for (size_t r = 0; r < kRows; ++r) x[r] = args.q.from(r, args.cols);
  for (size_t out = args.out_begin / Q4::kTileRows * Q4::kTileRows; out < args.out_end;
       out += Q4::kTileRows) {
    const std::byte* tile = args.weights + out / Q4::kTileRows * args.row_bytes;
    float32x4_t chains[kRows * kPanelVectors];
    for (float32x4_t& chain : chains) chain = vdupq_n_f32(0);
    for (size_t chunk = 0; chunk < blocks; chunk += kChunkBlocks) {
      const size_t end = blocks - chunk < kChunkBlocks ? blocks : chunk + kChunkBlocks;
      for (size_t block = chunk; block < end; ++block) {
        add_pair<A>(tile + block * sizeof(Q4::Block), block, x, chains);
      }
      for (size_t g = 2 * chunk; g < 2 * end; ++g) {
        const std::byte* at = tile + g / 2 * sizeof(Q4::Block);
        for (size_t r = 0; r < kRows; ++r) {
          if (x[r].second_scales[g] == 0) continue;
          const auto add = g % 2 == 0 ? add_second<A, 0> : add_second<A, 1>;
          add(at, x[r].second_values + g * kQuantGroup, x[r].second_scales[g], x[r].second_sums[g],
              chains + r * kPanelVectors);
        }
      }
    }
    const size_t begin = out < args.out_begin ? args.out_begin - out : 0;
    const size_t end = args.out_end - out < Q4::kTileRows ? args.out_end - out : Q4::kTileRows;
    for (size_t r = 0; r < kRows; ++r) {
      float outs[Q4::kTileRows];
      for (size_t v = 0; v < kPanelVectors; ++v)
        vst1q_f32(outs + v * 4, chains[r * kPanelVectors + v]);
      std::memcpy(args.y + r * args.y_stride + out + begin, outs + begin,
                  (end - begin) * sizeof(float));
    }
  }
}

template <class A>
struct Q4Panels : Registers<A> {
  using Floats = float32x4_t;
  static constexpr size_t kTileRows = Q4::kTileRows;
  static constexpr bool kHalves = false;
  static constexpr bool kMinimum = true;
  static constexpr bool kPairs = true;

  static void unpack(const MatmulArgs& args, size_t out, size_t, size_t group, size_t groups,
                     generic::Panel<Q4Panels>& panel) {
    const std::byte* block =
        args.weights + out / Q4::kTileRows * args.row_bytes + group / 2 * sizeof(Q4::Block);
    for (size_t g = 0; g < groups; g += 2, block += sizeof(Q4::Block)) {
      const Q4Numbers numbers(block);
      int8_t* low = reinterpret_cast<int8_t*>(panel.quants[g]);
      int8_t* high = reinterpret_cast<int8_t*>(panel.quants[g + 1]);
      for (size_t v = 0; v < kPanelVectors; ++v) {
        for (size_t of_pair = 0; of_pair < 2; ++of_pair) {
          vst1q_f32(panel.scales[g + of_pair] + v * 4, numbers.scales[v]);
          vst1q_f32(panel.minimums[g + of_pair] + v * 4, numbers.offsets[v]);
        }
        const Q4Weights<0> of_low{block};
        const Q4Weights<1> of_high{block};
        for (size_t step = 0; step < Q4::kChunks; step += 2) {
          A::store_steps(low, step, v, of_low(step, v), of_low(step + 1, v));
          A::store_steps(high, step, v, of_high(step, v), of_high(step + 1, v));
        }
      }
    }
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Q4Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t*, Floats* sums) {
    Registers<A>::template sums_of<Q4Panels, kQ4Largest>(panel, group, x, sums);
  }
};

template <class A>
void matmul_q4(const MatmulArgs& args) {
  if (args.rows > A::kFewRows) {
    generic::matmul_q8_panels<Q4Panels<A>>(args);
    return;
  }
  generic::with_constant<A::kFewRows>(
      args.rows, [&](auto rows) { multiply_few_rows_q4<A, rows.kValue>(args); });
}

}  // namespace
}  // namespace phidias::neon
