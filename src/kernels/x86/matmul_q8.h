// What the x86 instruction sets share of matmul_q8: unpacking panels, and the product of one
// activation row straight from the blocks. Local to the including file.
#pragma once

#include "kernels/generic/matmul_q8.h"
#include "kernels/x86/unpack.h"

namespace phidias {
namespace {
namespace x86 {

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

// Unpacks `outs` weight rows into a panel of Q; the rest of its lanes are zero. kSigned: the bias
// is taken off, and the panel's quants are int8. code_lane(code) is Q's form of a code.
template <class Q, class F, bool kSigned>
void unpack_panel(const std::byte* weights, size_t row_bytes, size_t outs,
                  const generic::Panel<Q>& panel) {
  using U = Unpack<F>;
  using Block = typename U::Block;
  constexpr size_t kOctetBytes = sizeof(Block) * 8 / U::kGroupsInBlock;
  constexpr size_t kOuts = Q::kOuts;
  static_assert(kOuts % 8 == 0);
  const __m256i bias = _mm256_set1_epi8(static_cast<char>(U::kBias));
  for (size_t g = 0; g < panel.groups; g += 8) {
    const size_t n = panel.groups - g < 8 ? panel.groups - g : 8;
    size_t positions[8];
    for (size_t s = 0; s < n; ++s) positions[s] = panel.position(g + s);
    for (size_t first = 0; first < kOuts; first += 8) {
      __m256i scales[8];
      __m256i minimums[8];
      const std::byte* octets[8] = {};
      const size_t rows = outs <= first ? 0 : outs - first < 8 ? outs - first : 8;
      for (size_t row = 0; row < 8; ++row) {
        scales[row] = _mm256_setzero_si256();
        minimums[row] = _mm256_setzero_si256();
        if (row >= rows) continue;
        octets[row] = weights + (first + row) * row_bytes + g / 8 * kOctetBytes;
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
        const size_t at = positions[s] * kOuts + first;
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
        uint8_t* out = panel.quants + positions[s] * 32 * kOuts + first * 4;
#pragma GCC unroll 8
        for (size_t k = 0; k < 8; ++k) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + k * kOuts * 4), quants[k]);
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel.scales + at), scales[s]);
        if constexpr (U::kMinimum) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel.minimums + at), minimums[s]);
        }
        if constexpr (U::kCodes) {
          for (size_t row = 0; row < 8; ++row) {
            for (size_t half = 0; half < 2; ++half) {
              const int32_t code = row < rows ? code_of<Block>(octets[row], 2 * s + half) : 0;
              panel.codes[(2 * positions[s] + half) * kOuts + first + row] = Q::code_lane(code);
            }
          }
        }
      }
    }
  }
}

// The sums of the eight lanes of each of eight registers.
[[gnu::always_inline]] inline __m256i fold8(const __m256i (&m)[8]) {
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
  return _mm256_add_epi32(_mm256_permute2x128_si256(abcd, efgh, 0x20),
                          _mm256_permute2x128_si256(abcd, efgh, 0x31));
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

// kBias * (sum of the row's values) of the groups of an octet; for kCodes of each half of 16, as
// int16 without the bias: those are multiplied with the codes first.
template <class U>
void fill_bias_sums(const int8_t* x, size_t groups, int32_t* sums) {
  if constexpr (U::kCodes) {
    int16_t* halves = reinterpret_cast<int16_t*>(sums);
    for (size_t i = 0; i < 2 * groups; ++i) {
      int32_t sum = 0;
      for (size_t k = 0; k < 16; ++k) sum += x[i * 16 + k];
      halves[i] = static_cast<int16_t>(sum);
    }
  } else {
    for (size_t i = 0; i < groups; ++i) {
      int32_t sum = 0;
      for (size_t k = 0; k < 32; ++k) sum += x[i * 32 + k];
      sums[i] = U::kBias * sum;
    }
  }
}

// How far ahead of its use a weight is asked for: the arithmetic between two loads keeps the CPU's
// own look-ahead from reaching far enough. Beyond the last row it asks for nothing of use, which
// harms nothing: a prefetch never faults.
inline constexpr size_t kPrefetchBytes = 2048;

// The first n (at most 8) floats, the rest 0.
inline __m256 load_first(const float* p, size_t n) {
  if (n == 8) return _mm256_loadu_ps(p);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane));
}

// One activation row against weight rows as they are stored. The lanes are the groups of an octet,
// which are the chains of order.h. Dot gives the eight partial sums of a group:
//   Dot::product<U>(quants, x)             of the unsigned quants
//   Dot::product_codes(quants, x, codes)   with int16 codes for the halves
template <class F, class Dot>
void matvec_q8(const MatmulArgs& args) {
  using U = Unpack<F>;
  using Block = typename U::Block;
  constexpr size_t kOctetBytes = sizeof(Block) * 8 / U::kGroupsInBlock;
  const size_t groups = args.cols / kQuantGroup;
  int32_t* bias_sums = reinterpret_cast<int32_t*>(args.scratch);
  // Room for a last octet that is not full.
  for (size_t i = groups; i < groups + 8; ++i) bias_sums[i] = 0;
  if constexpr (U::kBias != 0) fill_bias_sums<U>(args.q.values, groups, bias_sums);

  for (size_t o = args.out_begin; o < args.out_end; ++o) {
    const std::byte* row = args.weights + o * args.row_bytes;
    __m256 chains = _mm256_setzero_ps();
    const auto add_octet = [&](size_t g, size_t n) __attribute__((always_inline)) {
      const std::byte* octet = row + g / 8 * kOctetBytes;
      const int8_t* x = args.q.values + g * kQuantGroup;
#pragma GCC unroll 5
      for (size_t line = 0; line < kOctetBytes; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(octet + kPrefetchBytes + line), _MM_HINT_T0);
      }
      __m256i partial[8];
#pragma GCC unroll 8
      for (size_t s = 0; s < 8; ++s) {
        partial[s] = _mm256_setzero_si256();
        if (s >= n) continue;
        const std::byte* block = octet + s / U::kGroupsInBlock * sizeof(Block);
        const __m256i quants = U::quants(block, s % U::kGroupsInBlock);
        if constexpr (U::kCodes) {
          int16_t codes[2] = {code_of<Block>(block, 2 * s), code_of<Block>(block, 2 * s + 1)};
          partial[s] = Dot::product_codes(quants, load32(x + s * 32), codes);
        } else {
          partial[s] = Dot::template product<U>(quants, load32(x + s * 32));
        }
      }
      // A lane holds four products, and 16 * 31 * 127 is the most that four lanes make.
      __m256i sums = U::kBits <= 5 ? fold8_small(partial) : fold8(partial);
      if constexpr (U::kCodes) {
        const __m256i codes = _mm256_cvtepi8_epi16(load16(octet + offsetof(Block, codes)));
        const __m256i bias = _mm256_madd_epi16(codes, load32(bias_sums + g));
        sums = _mm256_sub_epi32(sums, _mm256_mullo_epi32(bias, _mm256_set1_epi32(U::kBias)));
      } else if constexpr (U::kBias != 0 && !Dot::template kSigned<U>) {
        sums = _mm256_sub_epi32(sums, load32(bias_sums + g));
      }
      __m256 minimums = _mm256_setzero_ps();
      const __m256 scales = U::scales(octet, n, minimums);
      const __m256 both = _mm256_mul_ps(scales, load_first(args.q.scales + g, n));
      chains = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), both, chains);
      if constexpr (U::kMinimum) {
        chains = _mm256_fmadd_ps(minimums, load_first(args.q.sums + g, n), chains);
      }
    };
    size_t g = 0;
    for (; g + 8 <= groups; g += 8) add_octet(g, 8);
    if (g < groups) add_octet(g, groups - g);

    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(chains), _mm256_extractf128_ps(chains, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    args.y[o] = _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
  }
}

}  // namespace x86
}  // namespace
}  // namespace phidias
