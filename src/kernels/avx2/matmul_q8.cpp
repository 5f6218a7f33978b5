#include "kernels/x86/matmul_q8.h"

#include <type_traits>

#include "kernels/isa.h"
#include "kernels/x86/fill.h"

namespace phidias::avx2 {
namespace {

using namespace x86;

inline void store32(void* p, __m256i x) { _mm256_store_si256(static_cast<__m256i*>(p), x); }

// Sums of neighbouring int16 as int32.
inline __m256i widen_pairs(__m256i x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }

// Products of signed bytes as sums of neighbours: the sign moves from one factor to the other,
// since the instruction wants one unsigned. |w| <= 128 and |x| <= 127, so no sum exceeds an int16.
inline __m256i signed_products(__m256i magnitude, __m256i w, __m256i x) {
  return _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, w));
}

// The eight partial sums of one group.
struct Dot {
  // A byte with the bias in it would overflow the int16 sums.
  template <class U>
  static constexpr bool kSigned = U::kBits == 8;

  template <class U>
  static __m256i product(__m256i quants, __m256i x) {
    if constexpr (kSigned<U>) {
      const __m256i w = _mm256_xor_si256(quants, _mm256_set1_epi8(-128));
      return widen_pairs(signed_products(_mm256_abs_epi8(w), w, x));
    } else {
      return widen_pairs(_mm256_maddubs_epi16(quants, x));
    }
  }
  static __m256i product_codes(__m256i quants, __m256i x, const int16_t (&codes)[2]) {
    const __m256i both = _mm256_set_m128i(_mm_set1_epi16(codes[1]), _mm_set1_epi16(codes[0]));
    return _mm256_madd_epi16(_mm256_maddubs_epi16(quants, x), both);
  }
};

// What the panels of all formats share. Per step of four columns two registers of weights meet
// three rows of activations: five loads for six products.
struct Registers {
  using Floats = __m256;
  static constexpr size_t kOuts = 16;
  static constexpr size_t kVectors = 2;
  static constexpr size_t kRows = 3;

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats set(float x) { return _mm256_set1_ps(x); }
  static Floats load(const float* p) { return _mm256_load_ps(p); }
  static void store(float* p, Floats x) { _mm256_store_ps(p, x); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

  // A pair of int16: what sums of pairs are multiplied with.
  static int32_t code_lane(int32_t code) {
    const uint32_t half = static_cast<uint16_t>(code);
    return static_cast<int32_t>(half << 16 | half);
  }

  // kRun: steps whose products' sum fits an int16.
  template <class Q, int kRun, bool kSigned, size_t kCount>
  [[gnu::always_inline]] static inline void sums_of(const generic::Panel<Q>& panel, size_t group,
                                                    const int8_t* const (&x)[kCount],
                                                    const int32_t* bias_sums, Floats* sums) {
    __m256i whole[kCount * 2];
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; k += kRun) {
      __m256i run[kCount * 2];
#pragma GCC unroll 8
      for (size_t i = k; i < k + kRun; ++i) {
        __m256i w[2];
        __m256i magnitude[2];
#pragma GCC unroll 2
        for (size_t v = 0; v < 2; ++v) {
          w[v] = load32(panel.quants[group][i][v * 8]);
          magnitude[v] = kSigned ? _mm256_abs_epi8(w[v]) : w[v];
        }
#pragma GCC unroll 8
        for (size_t r = 0; r < kCount; ++r) {
          int32_t four;
          std::memcpy(&four, x[r] + group * kQuantGroup + i * 4, sizeof(four));
          const __m256i values = _mm256_set1_epi32(four);
#pragma GCC unroll 2
          for (size_t v = 0; v < 2; ++v) {
            const __m256i products = kSigned ? signed_products(magnitude[v], w[v], values)
                                             : _mm256_maddubs_epi16(w[v], values);
            __m256i& sum = run[r * 2 + v];
            sum = i == k ? products : _mm256_add_epi16(sum, products);
          }
        }
      }
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) {
        const __m256i factor =
            Q::kHalves ? load32(panel.codes[group][k / 4] + v * 8) : _mm256_set1_epi16(1);
#pragma GCC unroll 8
        for (size_t r = 0; r < kCount; ++r) {
          __m256i& sum = whole[r * 2 + v];
          const __m256i widened = _mm256_madd_epi16(run[r * 2 + v], factor);
          sum = k == 0 ? widened : _mm256_add_epi32(sum, widened);
        }
      }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) {
        __m256i& sum = whole[r * 2 + v];
        if constexpr (Q::kBias != 0) sum = _mm256_add_epi32(sum, _mm256_set1_epi32(bias_sums[r]));
        sums[r * 2 + v] = _mm256_cvtepi32_ps(sum);
      }
    }
  }
};

template <class F>
struct Panels : Registers {
  using U = Unpack<F>;
  // Q6_K too: 63 * 127 * 4 would overflow, 32 * 127 * 8 does not.
  static constexpr bool kSigned = U::kBits == 8 || U::kBits == 6;
  static constexpr int kRun = U::kBits == 4 ? 8 : U::kBits == 8 ? 1 : 4;

  static constexpr size_t kTileRows = 1;
  static constexpr int kBias = kSigned ? 0 : U::kBias;
  static constexpr bool kHalves = U::kCodes;
  static constexpr bool kMinimum = U::kMinimum;
  static constexpr bool kPairs = false;

  static void unpack(const MatmulArgs& args, size_t out, size_t outs, size_t group, size_t groups,
                     generic::Panel<Panels>& panel) {
    unpack_panel<Panels, F, kSigned>(args, out, outs, group, groups, panel);
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t* bias_sums, Floats* sums) {
    sums_of<Panels, kRun, kSigned>(panel, group, x, bias_sums, sums);
  }
  static void value_sums(const int8_t* values, int32_t (&sums)[2]) {
    x86::value_sums<kHalves>(values, sums);
  }
};

template <>
struct Panels<Q4> : Registers {
  static constexpr size_t kTileRows = Q4::kTileRows;
  static constexpr int kBias = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMinimum = true;
  static constexpr bool kPairs = true;

  // Tiles are as the panel wants them, two groups a byte.
  static void unpack(const MatmulArgs& args, size_t out, size_t, size_t group, size_t groups,
                     generic::Panel<Panels>& panel) {
    const std::byte* block = q4_block(args, out, group / 2);
    for (size_t g = 0; g < groups; g += 2, block += sizeof(Q4::Block)) {
      prefetch_q4(block);
      unpack_numbers(block, panel.scales[g], panel.minimums[g]);
      std::memcpy(panel.scales[g + 1], panel.scales[g], sizeof(panel.scales[g]));
      std::memcpy(panel.minimums[g + 1], panel.minimums[g], sizeof(panel.minimums[g]));
      const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 16
      for (size_t i = 0; i < 16; ++i) {
        const __m256i both = load32(block + offsetof(Q4::Block, quants) + i * 32);
        const __m256i high = _mm256_srli_epi16(both, 4);
        store32(panel.quants[g][i / 2][i % 2 * 8], _mm256_and_si256(both, low));
        store32(panel.quants[g + 1][i / 2][i % 2 * 8], _mm256_and_si256(high, low));
      }
    }
  }
  static void unpack_numbers(const std::byte* block, float* scales, float* minimums) {
    __m128i codes = load16(block + offsetof(Q4::Block, scales));
    __m128i places = q4_offsets(block);
    for (size_t half = 0; half < 2; ++half) {
      const __m256i exponents = _mm256_slli_epi32(_mm256_cvtepu8_epi32(codes), Q4::kScaleShift);
      store32(scales + half * 8, _mm256_add_epi32(exponents, _mm256_set1_epi32(Q4::kScaleBits)));
      store(minimums + half * 8,
            mul(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(places)), set(-Q4::kOffsetUnit)));
      codes = _mm_unpackhi_epi64(codes, codes);
      places = _mm_unpackhi_epi64(places, places);
    }
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t* bias_sums, Floats* sums) {
    sums_of<Panels, 8, false>(panel, group, x, bias_sums, sums);
  }
};

template <class F>
void matmul_q8(const MatmulArgs& args) {
  if constexpr (!std::is_same_v<F, Q4>) {
    if (args.rows == 1) return matvec_q8<F, Dot>(args);
  }
  generic::matmul_q8_panels<Panels<F>>(args);
}

}  // namespace

void fill_matmul_q8(KernelTable& table) {
  table.matmul_q8[kAt<Format::kQ8_0>] = matmul_q8<Q8_0>;
  table.matmul_q8[kAt<Format::kQ4_0>] = matmul_q8<Q4_0>;
  table.matmul_q8[kAt<Format::kQ4_1>] = matmul_q8<Q4_1>;
  table.matmul_q8[kAt<Format::kQ5_0>] = matmul_q8<Q5_0>;
  table.matmul_q8[kAt<Format::kQ5_1>] = matmul_q8<Q5_1>;
  table.matmul_q8[kAt<Format::kQ4_K>] = matmul_q8<Q4_K>;
  table.matmul_q8[kAt<Format::kQ5_K>] = matmul_q8<Q5_K>;
  table.matmul_q8[kAt<Format::kQ6_K>] = matmul_q8<Q6_K>;
  table.matmul_q8[kAt<Format::kQ4>] = matmul_q8<Q4>;
}

}  // namespace phidias::avx2
