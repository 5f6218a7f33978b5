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

// What the panels of all formats share. Per step of four columns kVectors registers of weights meet
// up to eight rows of activations: for two and eight, ten loads for sixteen products. The chains do
// not all find room beside the sums of a group; they are needed but once a group.
template <size_t kVectorCount>
struct Registers {
  using Floats = __m512;
  static constexpr size_t kVectors = kVectorCount;
  static constexpr size_t kOuts = 16 * kVectors;
  static constexpr size_t kRows = 8;

  static Floats zero() { return Vec::zero(); }
  static Floats set(float x) { return Vec::set(x); }
  static Floats load(const float* p) { return Vec::load(p); }
  static void store(float* p, Floats x) { Vec::store(p, x); }
  static Floats mul(Floats a, Floats b) { return Vec::mul(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return Vec::fma(a, b, c); }

  // The bits of a float.
  static int32_t code_lane(int32_t code) {
    const float value = static_cast<float>(code);
    int32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }

  template <class Q, size_t kCount>
  [[gnu::always_inline]] static inline void sums_of(const generic::Panel<Q>& panel, size_t group,
                                                    const int8_t* const (&x)[kCount],
                                                    const int32_t* bias_sums, Floats* sums) {
    constexpr size_t kParts = Q::kHalves ? 2 : 1;
#pragma GCC unroll 2
    for (size_t part = 0; part < kParts; ++part) {
      __m512i whole[kCount * kVectors];
#pragma GCC unroll 16
      for (size_t r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          whole[r * kVectors + v] = Q::kBias == 0 ? _mm512_setzero_si512()
                                                  : _mm512_set1_epi32(bias_sums[part * kCount + r]);
        }
      }
#pragma GCC unroll 8
      for (size_t k = part * 4; k < (part + 1) * 8 / kParts; ++k) {
        __m512i w[kVectors];
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          w[v] = _mm512_load_si512(panel.quants[group][k][v * 16]);
        }
#pragma GCC unroll 16
        for (size_t r = 0; r < kCount; ++r) {
          int32_t four;
          std::memcpy(&four, x[r] + group * kQuantGroup + k * 4, sizeof(four));
          const __m512i values = _mm512_set1_epi32(four);
#pragma GCC unroll 2
          for (size_t v = 0; v < kVectors; ++v) {
            __m512i& sum = whole[r * kVectors + v];
            sum = _mm512_dpbusd_epi32(sum, w[v], values);
          }
        }
      }
      // With codes the sum is put together in floats: all of it is whole and below 2^24.
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        const Floats code = Q::kHalves ? _mm512_load_ps(panel.codes[group][part] + v * 16) : zero();
#pragma GCC unroll 16
        for (size_t r = 0; r < kCount; ++r) {
          const size_t i = r * kVectors + v;
          const Floats value = _mm512_cvtepi32_ps(whole[i]);
          if constexpr (Q::kHalves) {
            sums[i] = part == 0 ? mul(value, code) : fma(value, code, sums[i]);
          } else {
            sums[i] = value;
          }
        }
      }
    }
  }
};

template <class F>
struct Panels : Registers<2> {
  using U = Unpack<F>;
  static constexpr size_t kTileRows = 1;
  static constexpr int kBias = U::kBias;
  static constexpr bool kHalves = U::kCodes;
  static constexpr bool kMinimum = U::kMinimum;
  static constexpr bool kPairs = false;

  static void unpack(const MatmulArgs& args, size_t out, size_t outs, size_t group, size_t groups,
                     generic::Panel<Panels>& panel) {
    unpack_panel<Panels, F, false>(args, out, outs, group, groups, panel);
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t* bias_sums, Floats* sums) {
    sums_of<Panels>(panel, group, x, bias_sums, sums);
  }
  static void value_sums(const int8_t* values, int32_t (&sums)[2]) {
    x86::value_sums<kHalves>(values, sums);
  }
};

// One tile of weights at a time is one stream from memory, which few activation rows wait for; many
// rows want wider panels.
template <size_t kVectors>
struct Q4Panels : Registers<kVectors> {
  using typename Registers<kVectors>::Floats;
  static constexpr size_t kTileRows = Q4::kTileRows;
  static constexpr int kBias = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMinimum = true;
  static constexpr bool kPairs = true;

  static void unpack(const MatmulArgs& args, size_t out, size_t, size_t group, size_t groups,
                     generic::Panel<Q4Panels>& panel) {
    const __m512i low = _mm512_set1_epi8(15);
    for (size_t v = 0; v < kVectors; ++v) {
      const std::byte* block = q4_block(args, out + v * 16, group / 2);
      for (size_t g = 0; g < groups; g += 2, block += sizeof(Q4::Block)) {
        prefetch_q4(block);
        const __m512i codes = _mm512_cvtepu8_epi32(load16(block + offsetof(Q4::Block, scales)));
        const __m512i scale = _mm512_add_epi32(_mm512_slli_epi32(codes, Q4::kScaleShift),
                                               _mm512_set1_epi32(Q4::kScaleBits));
        const __m512 offset =
            _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(q4_offsets(block))),
                          _mm512_set1_ps(-Q4::kOffsetUnit));
#pragma GCC unroll 2
        for (size_t of_pair = 0; of_pair < 2; ++of_pair) {
          _mm512_store_si512(panel.scales[g + of_pair] + v * 16, scale);
          _mm512_store_ps(panel.minimums[g + of_pair] + v * 16, offset);
        }
#pragma GCC unroll 8
        for (size_t k = 0; k < 8; ++k) {
          const __m512i both = _mm512_loadu_si512(block + offsetof(Q4::Block, quants) + k * 64);
          _mm512_store_si512(panel.quants[g][k][v * 16], _mm512_and_si512(both, low));
          _mm512_store_si512(panel.quants[g + 1][k][v * 16],
                             _mm512_and_si512(_mm512_srli_epi16(both, 4), low));
        }
      }
    }
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Q4Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t* bias_sums, Floats* sums) {
    Registers<kVectors>::template sums_of<Q4Panels>(panel, group, x, bias_sums, sums);
  }
};

void matmul_q4(const MatmulArgs& args) {
  if (args.rows == 1) {
    generic::matmul_q8_panels<Q4Panels<1>>(args);
  } else {
    generic::matmul_q8_panels<Q4Panels<2>>(args);
  }
}

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
  table.matmul_q8[kAt<Format::kQ4>] = matmul_q4;
}

}  // namespace phidias::avx512_vnni
