#include "kernels/x86/matmul_q8.h"
#include "kernels/avx512/vec.h"
#include "kernels/isa.h"
#include "kernels/x86/fill.h"

namespace phidias::avx512_vnni {
namespace {

using namespace x86;

// The eight partial sums of one group.
struct Dot {
  template <class U>
  static constexpr bool kSigned = false;

  template <class U>
  static __m256i product(__m256i quants, __m256i x) {
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), quants, x);
  }
  static __m256i product_codes(__m256i quants, __m256i x, const int16_t (&codes)[2]) {
    const __m256i both = _mm256_set_m128i(_mm_set1_epi16(codes[1]), _mm_set1_epi16(codes[0]));
    return _mm256_madd_epi16(_mm256_maddubs_epi16(quants, x), both);
  }
};

// Panels of 16 weight rows.
template <class F>
struct Panels {
  using U = Unpack<F>;
  using Floats = __m512;
  static constexpr size_t kOuts = 16;
  static constexpr size_t kRows = 8;
  static constexpr int kBias = U::kBias;
  static constexpr bool kHalves = U::kCodes;
  static constexpr bool kMinimum = U::kMinimum;

  static Floats zero() { return Vec::zero(); }
  static Floats set(float x) { return Vec::set(x); }
  static Floats load(const float* p) { return Vec::load(p); }
  static void store(float* p, Floats x) { Vec::store(p, x); }
  static void store_partial(float* p, Floats x, size_t n) { Vec::store_partial(p, x, n); }
  static Floats add(Floats a, Floats b) { return Vec::add(a, b); }
  static Floats mul(Floats a, Floats b) { return Vec::mul(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return Vec::fma(a, b, c); }

  // The bits of a float.
  static int32_t code_lane(int32_t code) {
    const float value = static_cast<float>(code);
    int32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  static void unpack(const std::byte* weights, size_t row_bytes, size_t outs,
                     const generic::Panel<Panels>& panel) {
    unpack_panel<Panels, F, false>(weights, row_bytes, outs, panel);
  }

  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Panels>& panel,
                                                       size_t position, const int8_t* x,
                                                       size_t x_stride, const int32_t* bias_sums,
                                                       Floats* sums) {
    constexpr size_t kParts = kHalves ? 2 : 1;
    const uint8_t* quants = panel.quants + position * 32 * kOuts;
#pragma GCC unroll 2
    for (size_t part = 0; part < kParts; ++part) {
      __m512i whole[kCount];
#pragma GCC unroll 16
      for (size_t r = 0; r < kCount; ++r) {
        whole[r] =
            kBias == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(bias_sums[part * kCount + r]);
      }
#pragma GCC unroll 8
      for (size_t k = part * 4; k < (part + 1) * 8 / kParts; ++k) {
        const __m512i w = _mm512_loadu_si512(quants + k * 64);
#pragma GCC unroll 16
        for (size_t r = 0; r < kCount; ++r) {
          int32_t four;
          std::memcpy(&four, x + r * x_stride + k * 4, sizeof(four));
          whole[r] = _mm512_dpbusd_epi32(whole[r], w, _mm512_set1_epi32(four));
        }
      }
      // With codes the sum is put together in floats: all of it is whole and below 2^24.
      const Floats code =
          kHalves ? _mm512_loadu_ps(panel.codes + (2 * position + part) * kOuts) : zero();
#pragma GCC unroll 16
      for (size_t r = 0; r < kCount; ++r) {
        const Floats value = _mm512_cvtepi32_ps(whole[r]);
        if constexpr (kHalves) {
          sums[r] = part == 0 ? mul(value, code) : fma(value, code, sums[r]);
        } else {
          sums[r] = value;
        }
      }
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

}  // namespace phidias::avx512_vnni
