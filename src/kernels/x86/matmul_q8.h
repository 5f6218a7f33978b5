// What the x86 instruction sets share of matmul_q8: unpacking panels, and the product of one
// activation row straight from the blocks. Local to the including file.
#pragma once

#include "kernels/generic/matmul_q8.h"
#include "kernels/x86/unpack.h"

namespace phidias {
namespace {
namespace x86 {

// Calls f with the constants 0 to n - 1, n <= 8.
template <size_t kFrom = 0, class F>
[[gnu::always_inline]] inline void for_each_place(size_t n, F&& f) {
  if constexpr (kFrom < 8) {
    if (kFrom >= n) return;
    f(generic::Constant<kFrom>{});
    for_each_place<kFrom + 1>(n, f);
  }
}

// Eight rows of eight lanes of 32 bits, transposed in place.
[[gnu::always_inline]] inline void transpose8(__m256i (&m)[8]) {
  __m256i pairs[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(m[i], m[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(m[i], m[i + 1]);
  }
  __m256i quads[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    m[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
    m[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
  }
}

// Unpacks groups [group, group + groups) of `outs` weight rows into a panel of Q; the rest of its
// lanes are zero. kSigned: the bias is taken off, and the panel's quants are int8.
// Q::code_lane(code) is Q's form of a code. `group` is a multiple of 8.
template <class Q, class F, bool kSigned>
void unpack_panel(const MatmulArgs& args, size_t out, size_t outs, size_t group, size_t groups,
                  generic::Panel<Q>& panel) {
  using U = Unpack<F>;
  using Block = typename U::Block;
  constexpr size_t kOctetBytes = sizeof(Block) * 8 / U::kGroupsInBlock;
  static_assert(Q::kOuts % 8 == 0);
  const std::byte* weights = args.weights + out * args.row_bytes;
  const __m256i bias = _mm256_set1_epi8(static_cast<char>(U::kBias));
  for (size_t g = 0; g < groups; g += 8) {
    const size_t n = groups - g < 8 ? groups - g : 8;
    for (size_t first = 0; first < Q::kOuts; first += 8) {
      __m256i scales[8];
      __m256i minimums[8];
      const std::byte* octets[8] = {};
      const size_t rows = outs <= first ? 0 : outs - first < 8 ? outs - first : 8;
      for (size_t row = 0; row < 8; ++row) {
        scales[row] = _mm256_setzero_si256();
        minimums[row] = _mm256_setzero_si256();
        if (row >= rows) continue;
        octets[row] = weights + (first + row) * args.row_bytes + (group + g) / 8 * kOctetBytes;
        __m256 minimum = _mm256_setzero_ps();
        scales[row] = _mm256_castps_si256(U::scales(octets[row], n, minimum));
        minimums[row] = _mm256_castps_si256(minimum);
      }
      transpose8(scales);
      if constexpr (U::kMinimum) transpose8(minimums);
        // A constant s lets the compiler resolve the shifts of each group.
#pragma GCC unroll 8
      for (size_t s = 0; s < 8; ++s) {
        if (s >= n) break;
        __m256i quants[8];
#pragma GCC unroll 8
        for (size_t row = 0; row < 8; ++row) {
          quants[row] = _mm256_setzero_si256();
          if (row >= rows) continue;
          const std::byte* block = octets[row] + s / U::kGroupsInBlock * sizeof(Block);
          quants[row] = U::quants(block, s % U::kGroupsInBlock);
          if constexpr (kSigned) quants[row] = _mm256_sub_epi8(quants[row], bias);
        }
        transpose8(quants);
#pragma GCC unroll 8
        for (size_t k = 0; k < 8; ++k) {
          _mm256_store_si256(reinterpret_cast<__m256i*>(panel.quants[g + s][k][first]), quants[k]);
        }
        _mm256_store_si256(reinterpret_cast<__m256i*>(panel.scales[g + s] + first), scales[s]);
        if constexpr (U::kMinimum) {
          _mm256_store_si256(reinterpret_cast<__m256i*>(panel.minimums[g + s] + first),
                             minimums[s]);
        }
        if constexpr (U::kCodes) {
          for (size_t row = 0; row < 8; ++row) {
            for (size_t half = 0; half < 2; ++half) {
              const int32_t code = row < rows ? code_of<Block>(octets[row], 2 * s + half) : 0;
              panel.codes[g + s][half][first + row] = Q::code_lane(code);
            }
          }
        }
      }
    }
  }
}

// The sum of a group's 32 values; with kHalves of each 16.
template <bool kHalves>
inline void value_sums(const int8_t* values, int32_t (&sums)[2]) {
  const __m256i ones = _mm256_set1_epi8(1);
  const __m256i by4 =
      _mm256_madd_epi16(_mm256_maddubs_epi16(ones, load32(values)), _mm256_set1_epi16(1));
  const auto fold = [](__m128i lanes) {
    const __m128i by2 = _mm_add_epi32(lanes, _mm_shuffle_epi32(lanes, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xB1)));
  };
  const __m128i low = _mm256_castsi256_si128(by4);
  const __m128i high = _mm256_extracti128_si256(by4, 1);
  if constexpr (kHalves) {
    sums[0] = fold(low);
    sums[1] = fold(high);
  } else {
    sums[0] = fold(_mm_add_epi32(low, high));
  }
}

// The sums of the lanes of each of eight registers, of their lower and their upper halves.
[[gnu::always_inline]] inline void fold8_halves(const __m256i (&m)[8], __m256i (&sums)[2]) {
  __m256i pairs[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    // a0+a2 b0+b2 a1+a3 b1+b3, in both halves
    pairs[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(m[2 * i], m[2 * i + 1]),
                                _mm256_unpackhi_epi32(m[2 * i], m[2 * i + 1]));
  }
  const __m256i abcd = _mm256_add_epi32(_mm256_unpacklo_epi64(pairs[0], pairs[1]),
                                        _mm256_unpackhi_epi64(pairs[0], pairs[1]));
  const __m256i efgh = _mm256_add_epi32(_mm256_unpacklo_epi64(pairs[2], pairs[3]),
                                        _mm256_unpackhi_epi64(pairs[2], pairs[3]));
  sums[0] = _mm256_permute2x128_si256(abcd, efgh, 0x20);
  sums[1] = _mm256_permute2x128_si256(abcd, efgh, 0x31);
}
[[gnu::always_inline]] inline __m256i fold8(const __m256i (&m)[8]) {
  __m256i halves[2];
  fold8_halves(m, halves);
  return _mm256_add_epi32(halves[0], halves[1]);
}

// The same where all partial sums and the sums of two and of four of them fit an int16: fewer
// steps.
[[gnu::always_inline]] inline __m256i fold8_small(const __m256i (&m)[8]) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i pairs[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm256_madd_epi16(_mm256_packs_epi32(m[2 * i], m[2 * i + 1]), ones);
  }
  const __m256i abcd = _mm256_madd_epi16(_mm256_packs_epi32(pairs[0], pairs[1]), ones);
  const __m256i efgh = _mm256_madd_epi16(_mm256_packs_epi32(pairs[2], pairs[3]), ones);
  return _mm256_add_epi32(_mm256_permute2x128_si256(abcd, efgh, 0x20),
                          _mm256_permute2x128_si256(abcd, efgh, 0x31));
}

// So much is on its way at least, of each of eight rows.
inline constexpr size_t kPrefetchedBytes = 512;

// Eight weight rows side by side, in the lanes; the scales of a chunk of columns are put in order
// first.
template <class F>
struct WeightRows {
  using U = Unpack<F>;
  using Block = typename U::Block;
  static constexpr size_t kOctetBytes = sizeof(Block) * 8 / U::kGroupsInBlock;
  static constexpr size_t kGroups = generic::kChunkGroups;
  static constexpr size_t kChunkBytes = kOctetBytes * kGroups / 8;

  const std::byte* rows[8];  // each row's chunk
  __m256 scales[kGroups];    // of each group
  __m256 minimums[U::kMinimum ? kGroups : 1];
  __m256i codes[U::kCodes ? kGroups : 1];  // a pair of int16 in each lane

  void read_scales(size_t groups) {
    for (size_t g = 0; g < groups; g += 8) {
      const size_t n = groups - g < 8 ? groups - g : 8;
      if constexpr (U::kGroupsInBlock == 8 && U::kMinimum) {
        const std::byte* octets[8];
        for (size_t row = 0; row < 8; ++row) octets[row] = rows[row] + g / 8 * kOctetBytes;
        U::scales_of_rows(octets, scales + g, minimums + g);
        continue;
      }
      __m256i of_rows[8];
      __m256i minimums_of_rows[8];
#pragma GCC unroll 8
      for (size_t row = 0; row < 8; ++row) {
        __m256 minimum = _mm256_setzero_ps();
        of_rows[row] = _mm256_castps_si256(U::scales(rows[row] + g / 8 * kOctetBytes, n, minimum));
        minimums_of_rows[row] = _mm256_castps_si256(minimum);
      }
      transpose8(of_rows);
      for (size_t s = 0; s < 8; ++s) scales[g + s] = _mm256_castsi256_ps(of_rows[s]);
      if constexpr (U::kMinimum) {
        transpose8(minimums_of_rows);
        for (size_t s = 0; s < 8; ++s) minimums[g + s] = _mm256_castsi256_ps(minimums_of_rows[s]);
      }
      if constexpr (U::kCodes) {
        __m256i pairs[8];
        for (size_t row = 0; row < 8; ++row) {
          pairs[row] = _mm256_cvtepi8_epi16(
              load16(rows[row] + g / 8 * kOctetBytes + offsetof(Block, codes)));
        }
        transpose8(pairs);
        for (size_t s = 0; s < 8; ++s) codes[g + s] = pairs[s];
      }
    }
  }

  // Asks for what lies `bytes` further on than an octet of row kPlace: a row with each group, since
  // too much at once would make the thread wait.
  template <size_t kPlace>
  [[gnu::always_inline]] inline void prefetch(size_t octet, size_t bytes) const {
    const std::byte* at = rows[kPlace] + octet / 8 * kOctetBytes + bytes;
#pragma GCC unroll 8
    for (size_t line = 0; line < kOctetBytes; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T0);
    }
  }

  // What the biases of the quants add to the integer sums of a group, by the code of each half.
  static constexpr bool kBiased = U::kBias != 0;
  static constexpr size_t kBiasSums = U::kCodes ? 2 : 1;
  static void fill_bias(const int8_t* values, int32_t* sums) {
    int32_t plain[2];
    value_sums<U::kCodes>(values, plain);
    for (size_t half = 0; half < kBiasSums; ++half) sums[half] = U::kBias * plain[half];
  }

  // Group g of the chunk, of which the row of activations has `values`, added to the chains. kPlace
  // is g % 8.
  template <class Dot, size_t kPlace>
  [[gnu::always_inline]] inline __m256 add_group(size_t g, const int8_t* values, float row_scale,
                                                 float row_sum, const int32_t* bias_sums,
                                                 __m256 chains) const {
    const __m256i x = load32(values);
    __m256i partial[8];
#pragma GCC unroll 8
    for (size_t row = 0; row < 8; ++row) {
      const std::byte* octet = rows[row] + g / 8 * kOctetBytes;
      const std::byte* block = octet + kPlace / U::kGroupsInBlock * sizeof(Block);
      partial[row] = Dot::template product<U>(U::quants(block, kPlace % U::kGroupsInBlock), x);
    }
    __m256i sums;
    if constexpr (U::kCodes) {
      __m256i halves[2];
      fold8_halves(partial, halves);
      const __m256i code[2] = {_mm256_srai_epi32(_mm256_slli_epi32(codes[g], 16), 16),
                               _mm256_srai_epi32(codes[g], 16)};
#pragma GCC unroll 2
      for (size_t half = 0; half < 2; ++half) {
        halves[half] = _mm256_mullo_epi32(
            _mm256_sub_epi32(halves[half], _mm256_set1_epi32(bias_sums[half])), code[half]);
      }
      sums = _mm256_add_epi32(halves[0], halves[1]);
    } else {
      // A lane holds four products, and 16 * 31 * 127 is the most that four lanes make.
      sums = U::kBits <= 5 ? fold8_small(partial) : fold8(partial);
      if constexpr (kBiased && !Dot::template kSigned<U>) {
        sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(bias_sums[0]));
      }
    }
    const __m256 both = _mm256_mul_ps(scales[g], _mm256_set1_ps(row_scale));
    chains = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), both, chains);
    if constexpr (U::kMinimum) {
      chains = _mm256_fmadd_ps(minimums[g], _mm256_set1_ps(row_sum), chains);
    }
    return chains;
  }
};

// One activation row against weight rows as they are stored. Dot gives the eight partial sums of a
// group:
//   Dot::product<U>(quants, x)   of the unsigned quants
//   Dot::kSigned<U>              whether the bias has been taken off them
template <class F, class Dot>
void matvec_q8(const MatmulArgs& args) {
  constexpr size_t kChunkGroups = generic::kChunkGroups;
  constexpr size_t kOctetBytes = WeightRows<F>::kOctetBytes;
  const QuantizedRows& x = args.q;
  const size_t groups = args.cols / kQuantGroup;
  constexpr size_t kBiasSums = WeightRows<F>::kBiasSums;
  int32_t* bias_sums = reinterpret_cast<int32_t*>(args.scratch);  // [groups][kBiasSums]
  if constexpr (WeightRows<F>::kBiased) {
    for (size_t g = 0; g < groups; ++g)
      WeightRows<F>::fill_bias(x.values + g * kQuantGroup, bias_sums + g * kBiasSums);
  }
  for (size_t o = args.out_begin; o < args.out_end; o += 8) {
    const size_t outs = args.out_end - o < 8 ? args.out_end - o : 8;
    __m256 chains = _mm256_setzero_ps();
    for (size_t group = 0; group < groups; group += kChunkGroups) {
      const size_t count = groups - group < kChunkGroups ? groups - group : kChunkGroups;
      WeightRows<F> weights;
      for (size_t row = 0; row < 8; ++row) {
        // Lanes to spare work on the last row.
        weights.rows[row] = args.weights + (o + (row < outs ? row : outs - 1)) * args.row_bytes +
                            group / 8 * kOctetBytes;
      }
      // After the end of these rows come the next ones.
      constexpr size_t kAhead =
          (kPrefetchedBytes + WeightRows<F>::kChunkBytes - 1) / WeightRows<F>::kChunkBytes;
      const size_t skip = group + kAhead * kChunkGroups < groups ? 0 : 7 * args.row_bytes;
      const size_t ahead = kAhead * WeightRows<F>::kChunkBytes + skip;
      weights.read_scales(count);
      const auto add = [&](size_t g, auto place, const int8_t* values, const float* row_scales,
                           const float* row_sums, const int32_t* of_bias)
          __attribute__((always_inline)) {
        chains = weights.template add_group<Dot, place.kValue>(
            g, values + (group + g) * kQuantGroup, row_scales[group + g], row_sums[group + g],
            of_bias, chains);
      };
      for (size_t octet = 0; octet < count; octet += 8) {
        for_each_place(count - octet < 8 ? count - octet : 8, [&](auto place) {
          const size_t g = octet + place.kValue;
          weights.template prefetch<place.kValue>(octet, ahead);
          add(g, place, x.values, x.scales, x.sums, bias_sums + (group + g) * kBiasSums);
        });
      }
      for (size_t g = 0; g < count; ++g) {
        if (x.second_scales[group + g] == 0) continue;
        int32_t of_bias[kBiasSums] = {};
        if constexpr (WeightRows<F>::kBiased)
          WeightRows<F>::fill_bias(x.second_values + (group + g) * kQuantGroup, of_bias);
        generic::with_constant<8>(g % 8 + 1, [&](auto following) {
          add(g, generic::Constant<following.kValue - 1>{}, x.second_values, x.second_scales,
              x.second_sums, of_bias);
        });
      }
    }
    if (outs == 8) {
      _mm256_storeu_ps(args.y + o, chains);
    } else {
      alignas(32) float lanes[8];
      _mm256_store_ps(lanes, chains);
      std::memcpy(args.y + o, lanes, outs * sizeof(float));
    }
  }
}

}  // namespace x86
}  // namespace
}  // namespace phidias
