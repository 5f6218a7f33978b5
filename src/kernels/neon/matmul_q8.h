// matmul_q8 of the formats whose rows lie one by one, over the integer products A of an instruction
// set (integers.h). Local to the including file.
//
// One activation row goes straight through the blocks: four weight rows side by side, the sums of
// each group folded into the four lanes of a register. Several go through panels.
#pragma once

#include "kernels/generic/matmul_q8.h"
#include "kernels/neon/integers.h"
#include "kernels/places.h"

namespace phidias::neon {
namespace {

// Four rows of four lanes, transposed in place.
[[gnu::always_inline]] inline void transpose4(uint32x4_t (&m)[4]) {
  const uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(m[0], m[1]));
  const uint64x2_t b = vreinterpretq_u64_u32(vtrn2q_u32(m[0], m[1]));
  const uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(m[2], m[3]));
  const uint64x2_t d = vreinterpretq_u64_u32(vtrn2q_u32(m[2], m[3]));
  m[0] = vreinterpretq_u32_u64(vtrn1q_u64(a, c));
  m[1] = vreinterpretq_u32_u64(vtrn1q_u64(b, d));
  m[2] = vreinterpretq_u32_u64(vtrn2q_u64(a, c));
  m[3] = vreinterpretq_u32_u64(vtrn2q_u64(b, d));
}

// Four weight rows side by side, in the lanes.
template <class F>
struct FourRows {
  using U = Unpack<F>;
  using Block = typename U::Block;
  static constexpr size_t kOctetBytes = sizeof(Block) * 8 / U::kGroupsInBlock;

  const std::byte* octets[4];  // of each row
  float32x4_t scales[8];       // of each group
  float32x4_t minimums[U::kMinimum ? 8 : 1];

  // Reads the scales of the n groups of the octets.
  [[gnu::always_inline]] inline void read_scales(size_t n) {
    Numbers scales_of[4], minimums_of[4];
#pragma GCC unroll 4
    for (size_t row = 0; row < 4; ++row)
      scales_of[row] = U::scales(octets[row], n, minimums_of[row]);
    to_lanes(scales_of, scales);
    if constexpr (U::kMinimum) to_lanes(minimums_of, minimums);
  }
  [[gnu::always_inline]] static inline void to_lanes(const Numbers (&of_rows)[4],
                                                     float32x4_t* of_groups) {
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      uint32x4_t m[4];
#pragma GCC unroll 4
      for (size_t row = 0; row < 4; ++row)
        m[row] = vreinterpretq_u32_f32(of_rows[row].halves[half]);
      transpose4(m);
#pragma GCC unroll 4
      for (size_t g = 0; g < 4; ++g) of_groups[half * 4 + g] = vreinterpretq_f32_u32(m[g]);
    }
  }
  [[gnu::always_inline]] inline Group quants(size_t row, size_t s) const {
    return U::quants(octets[row] + s / U::kGroupsInBlock * sizeof(Block), s % U::kGroupsInBlock);
  }
  // The signed code of half `half` of group s in each row.
  [[gnu::always_inline]] inline int32x4_t codes(size_t s, size_t half) const {
    int32_t lanes[4];
    for (size_t row = 0; row < 4; ++row) lanes[row] = code_of<Block>(octets[row], 2 * s + half);
    return vld1q_s32(lanes);
  }
};

[[gnu::always_inline]] inline int32x4_t fold4(const int32x4_t (&x)[4]) {
  return vpaddq_s32(vpaddq_s32(x[0], x[1]), vpaddq_s32(x[2], x[3]));
}

// Group s of the octets, added to the chains.
template <class A, class F>
[[gnu::always_inline]] inline float32x4_t add_group(const FourRows<F>& rows, size_t s,
                                                    const int8_t* values, float row_scale,
                                                    float row_sum, float32x4_t chains) {
  using U = Unpack<F>;
  const Group x(values);
  int32x4_t sums;
  int32x4_t partial[4];
  if constexpr (U::kCodes) {
    int32x4_t second[4];
#pragma GCC unroll 4
    for (size_t row = 0; row < 4; ++row) {
      const Group w = rows.quants(row, s);
      partial[row] = A::half_product(w.halves[0], x.halves[0]);
      second[row] = A::half_product(w.halves[1], x.halves[1]);
    }
    sums = vmulq_s32(fold4(partial), rows.codes(s, 0));
    sums = vmlaq_s32(sums, fold4(second), rows.codes(s, 1));
  } else {
#pragma GCC unroll 4
    for (size_t row = 0; row < 4; ++row) {
      partial[row] = A::template product<U::kLargest>(rows.quants(row, s), x);
    }
    sums = fold4(partial);
  }
  chains = vfmaq_f32(chains, vcvtq_f32_s32(sums), vmulq_n_f32(rows.scales[s], row_scale));
  if constexpr (U::kMinimum) chains = vfmaq_n_f32(chains, rows.minimums[s], row_sum);
  return chains;
}

template <class A, class F>
void matvec_q8(const MatmulArgs& args) {
  const QuantizedRows& x = args.q;
  const size_t groups = args.cols / kQuantGroup;
  for (size_t o = args.out_begin; o < args.out_end; o += 4) {
    const size_t outs = args.out_end - o < 4 ? args.out_end - o : 4;
    float32x4_t chains = vdupq_n_f32(0);
    for (size_t chunk = 0; chunk < groups; chunk += generic::kChunkGroups) {
      const size_t end =
          groups - chunk < generic::kChunkGroups ? groups : chunk + generic::kChunkGroups;
      // First terms, then second ones: the second walk is rare, and finds all in the cache.
      const auto walk = [&](auto second) __attribute__((always_inline)) {
        for (size_t octet = chunk; octet < end; octet += 8) {
          const size_t n = end - octet < 8 ? end - octet : 8;
          if constexpr (second.kValue != 0) {
            bool any = false;
            for (size_t s = 0; s < n; ++s) any |= x.second_scales[octet + s] != 0;
            if (!any) continue;
          }
          FourRows<F> rows;
          for (size_t row = 0; row < 4; ++row) {
            // Lanes to spare work on the last row.
            rows.octets[row] = args.weights + (o + (row < outs ? row : outs - 1)) * args.row_bytes +
                               octet / 8 * FourRows<F>::kOctetBytes;
          }
          rows.read_scales(n);
          for (size_t s = 0; s < n; ++s) {
            const size_t g = octet + s;
            if constexpr (second.kValue != 0) {
              if (x.second_scales[g] == 0) continue;
              chains = add_group<A>(rows, s, x.second_values + g * kQuantGroup, x.second_scales[g],
                                    x.second_sums[g], chains);
            } else {
              chains =
                  add_group<A>(rows, s, x.values + g * kQuantGroup, x.scales[g], x.sums[g], chains);
            }
          }
        }
      };
      walk(generic::Constant<0>{});
      walk(generic::Constant<1>{});
    }
    if (outs == 4) {
      vst1q_f32(args.y + o, chains);
    } else {
      Vec::store_partial(args.y + o, chains, outs);
    }
  }
}

// What the panels of all formats share: generic/matmul_q8.h.
template <class A>
struct Registers {
  using Floats = float32x4_t;
  static constexpr size_t kOuts = kPanelOuts;
  static constexpr size_t kVectors = kPanelVectors;
  static constexpr size_t kRows = A::kRows;
  static constexpr int kBias = 0;

  static Floats zero() { return Vec::zero(); }
  static Floats set(float x) { return Vec::set(x); }
  static Floats load(const float* p) { return Vec::load(p); }
  static void store(float* p, Floats x) { Vec::store(p, x); }
  // There is no instruction for it that compilers offer.
  static void stream(float* y, const float* chains) {
    for (size_t v = 0; v < kVectors; ++v) store(y + v * 4, load(chains + v * 4));
  }
  static void end_streams() {}
  static void park(Floats&) {}
  static Floats mul(Floats a, Floats b) { return Vec::mul(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return Vec::fma(a, b, c); }

  template <class Q, int kLargest, size_t kCount>
  [[gnu::always_inline]] static inline void sums_of(const generic::Panel<Q>& panel, size_t group,
                                                    const int8_t* const (&x)[kCount],
                                                    Floats* sums) {
    const int8_t* quants = reinterpret_cast<const int8_t*>(panel.quants[group]);
    const int8_t* values[kCount];
    int32x4_t whole[kCount * kVectors];
#pragma GCC unroll 4
    for (size_t r = 0; r < kCount; ++r) values[r] = x[r] + group * kQuantGroup;
    if constexpr (Q::kHalves) {
      int32x4_t second[kCount * kVectors];
      A::template panel_sums<kLargest, 1>(quants, values, 0, whole);
      A::template panel_sums<kLargest, 1>(quants, values, 1, second);
#pragma GCC unroll 16
      for (size_t i = 0; i < kCount * kVectors; ++i) {
        const int32_t(&codes)[2][kOuts] = panel.codes[group];
        const size_t v = i % kVectors;
        whole[i] = vmulq_s32(whole[i], vld1q_s32(codes[0] + v * 4));
        whole[i] = vmlaq_s32(whole[i], second[i], vld1q_s32(codes[1] + v * 4));
      }
    } else {
      A::template panel_sums<kLargest, 2>(quants, values, 0, whole);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kCount * kVectors; ++i) sums[i] = vcvtq_f32_s32(whole[i]);
  }
};

template <class A, class F>
struct Panels : Registers<A> {
  using U = Unpack<F>;
  using Floats = float32x4_t;
  static constexpr size_t kTileRows = 1;
  static constexpr bool kHalves = U::kCodes;
  static constexpr bool kMinimum = U::kMinimum;
  static constexpr bool kPairs = false;

  // The rest of the lanes repeats the last row.
  static void unpack(const MatmulArgs& args, size_t out, size_t outs, size_t group, size_t groups,
                     generic::Panel<Panels>& panel) {
    for (size_t g = 0; g < groups; g += 8) {
      const size_t n = groups - g < 8 ? groups - g : 8;
      for (size_t v = 0; v < kPanelVectors; ++v) {
        FourRows<F> rows;
        for (size_t i = 0; i < 4; ++i) {
          const size_t row = v * 4 + i < outs ? v * 4 + i : outs - 1;
          rows.octets[i] = args.weights + (out + row) * args.row_bytes +
                           (group + g) / 8 * FourRows<F>::kOctetBytes;
        }
        rows.read_scales(n);
        for (size_t s = 0; s < n; ++s) {
          const size_t at = g + s;
          vst1q_f32(panel.scales[at] + v * 4, rows.scales[s]);
          if constexpr (kMinimum) vst1q_f32(panel.minimums[at] + v * 4, rows.minimums[s]);
          if constexpr (kHalves) {
            for (size_t half = 0; half < 2; ++half)
              vst1q_s32(panel.codes[at][half] + v * 4, rows.codes(s, half));
          }
          store_quants(rows, s, v, reinterpret_cast<int8_t*>(panel.quants[at]));
        }
      }
    }
  }
  [[gnu::always_inline]] static inline void store_quants(const FourRows<F>& rows, size_t s,
                                                         size_t v, int8_t* quants) {
    uint32x4_t steps[2][4];
#pragma GCC unroll 4
    for (size_t row = 0; row < 4; ++row) {
      const Group of_row = rows.quants(row, s);
      steps[0][row] = vreinterpretq_u32_s8(of_row.halves[0]);
      steps[1][row] = vreinterpretq_u32_s8(of_row.halves[1]);
    }
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      transpose4(steps[half]);
#pragma GCC unroll 2
      for (size_t step = 0; step < 4; step += 2) {
        A::store_steps(quants, half * 4 + step, v, vreinterpretq_s8_u32(steps[half][step]),
                       vreinterpretq_s8_u32(steps[half][step + 1]));
      }
    }
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t*, Floats* sums) {
    Registers<A>::template sums_of<Panels, U::kLargest>(panel, group, x, sums);
  }
};

template <class A, class F>
void matmul_q8(const MatmulArgs& args) {
  if (args.rows == 1) {
    matvec_q8<A, F>(args);
  } else {
    generic::matmul_q8_panels<Panels<A, F>>(args);
  }
}

template <class A>
[[gnu::always_inline]] inline void fill_rows_q8(KernelTable& table) {
  table.matmul_q8[kAt<Format::kQ8_0>] = matmul_q8<A, Q8_0>;
  table.matmul_q8[kAt<Format::kQ4_0>] = matmul_q8<A, Q4_0>;
  table.matmul_q8[kAt<Format::kQ4_1>] = matmul_q8<A, Q4_1>;
  table.matmul_q8[kAt<Format::kQ5_0>] = matmul_q8<A, Q5_0>;
  table.matmul_q8[kAt<Format::kQ5_1>] = matmul_q8<A, Q5_1>;
  table.matmul_q8[kAt<Format::kQ4_K>] = matmul_q8<A, Q4_K>;
  table.matmul_q8[kAt<Format::kQ5_K>] = matmul_q8<A, Q5_K>;
  table.matmul_q8[kAt<Format::kQ6_K>] = matmul_q8<A, Q6_K>;
}

}  // namespace
}  // namespace phidias::neon
