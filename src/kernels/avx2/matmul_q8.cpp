#include "kernels/x86/matmul_q8.h"
#include "kernels/avx2/vec.h"
#include "kernels/isa.h"
#include "kernels/x86/fill.h"

namespace phidias::avx2 {
namespace {

using namespace x86;

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

// Panels of 8 weight rows.
template <class F>
struct Panels {
  using U = Unpack<F>;
  // Q6_K too: 63 * 127 * 4 would overflow, 32 * 127 * 8 does not.
  static constexpr bool kSigned = U::kBits == 8 || U::kBits == 6;
  // Vectors of products (two each) whose sum fits an int16.
  static constexpr int kRun = U::kBits == 4 ? 8 : U::kBits == 8 ? 1 : 4;

  using Floats = __m256;
  static constexpr size_t kOuts = 8;
  static constexpr size_t kRows = 6;
  static constexpr int kBias = kSigned ? 0 : U::kBias;
  static constexpr bool kHalves = U::kCodes;
  static constexpr bool kMinimum = U::kMinimum;

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats set(float x) { return _mm256_set1_ps(x); }
  static Floats load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Floats x) { _mm256_storeu_ps(p, x); }
  static void store_partial(float* p, Floats x, size_t n) {
    _mm256_maskstore_ps(p, Vec::first(n), x);
  }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

  // A pair of int16: what sums of pairs are multiplied with.
  static int32_t code_lane(int32_t code) {
    const uint32_t half = static_cast<uint16_t>(code);
    return static_cast<int32_t>(half << 16 | half);
  }
  static void unpack(const std::byte* weights, size_t row_bytes, size_t outs,
                     const generic::Panel<Panels>& panel) {
    unpack_panel<Panels, F, kSigned>(weights, row_bytes, outs, panel);
  }

  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Panels>& panel,
                                                       size_t position, const int8_t* x,
                                                       size_t x_stride, const int32_t* bias_sums,
                                                       Floats* sums) {
    const uint8_t* quants = panel.quants + position * 32 * kOuts;
    __m256i whole[kCount];
#pragma GCC unroll 8
    for (int k = 0; k < 8; k += kRun) {
      __m256i run[kCount];
#pragma GCC unroll 8
      for (int i = k; i < k + kRun; ++i) {
        const __m256i w = load32(quants + i * 32);
        const __m256i magnitude = kSigned ? _mm256_abs_epi8(w) : w;
#pragma GCC unroll 8
        for (size_t r = 0; r < kCount; ++r) {
          int32_t four;
          std::memcpy(&four, x + r * x_stride + i * 4, sizeof(four));
          const __m256i values = _mm256_set1_epi32(four);
          const __m256i products =
              kSigned ? signed_products(magnitude, w, values) : _mm256_maddubs_epi16(w, values);
          run[r] = i == k ? products : _mm256_add_epi16(run[r], products);
        }
      }
      const __m256i factor =
          kHalves ? load32(panel.codes + (2 * position + static_cast<size_t>(k) / 4) * kOuts)
                  : _mm256_set1_epi16(1);
#pragma GCC unroll 8
      for (size_t r = 0; r < kCount; ++r) {
        const __m256i widened = _mm256_madd_epi16(run[r], factor);
        whole[r] = k == 0 ? widened : _mm256_add_epi32(whole[r], widened);
      }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kCount; ++r) {
      if constexpr (kBias != 0) {
        whole[r] = _mm256_add_epi32(whole[r], _mm256_set1_epi32(bias_sums[r]));
      }
      sums[r] = _mm256_cvtepi32_ps(whole[r]);
    }
  }
};

template <class F>
void matmul_q8(const MatmulArgs& args) {
  if (args.rows == 1) {
    matvec_q8<F, Dot>(args);
  } else {
    generic::matmul_q8_panels<Panels<F>>(args);
  }
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
}

}  // namespace phidias::avx2
