#include "kernels/avx2/panels.h"
#include "kernels/isa.h"
#include "kernels/places.h"
#include "kernels/x86/few_rows_q4.h"

namespace phidias::avx2 {
namespace {

using namespace x86;

inline void store32(void* p, __m256i x) { _mm256_store_si256(static_cast<__m256i*>(p), x); }

// Eight of a block's rows are `half` of it.
constexpr size_t kHalfRows = Q4::kTileRows / 2;

// Scale and offset of them; the offset negative.
struct Numbers {
  __m256 scale;
  __m256 offset;

  Numbers(const std::byte* block, size_t half) {
    const __m128i codes = _mm_loadl_epi64(
        reinterpret_cast<const __m128i*>(block + offsetof(Q4::Block, scales) + half * kHalfRows));
    const __m256i exponents = _mm256_slli_epi32(_mm256_cvtepu8_epi32(codes), Q4::kScaleShift);
    scale = _mm256_castsi256_ps(_mm256_add_epi32(exponents, _mm256_set1_epi32(Q4::kScaleBits)));
    const __m128i all = q4_offsets(block);
    const __m128i places = half == 0 ? all : _mm_unpackhi_epi64(all, all);
    offset = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(places)),
                           _mm256_set1_ps(-Q4::kOffsetUnit));
  }
};

// Both halves of the bytes that are four columns of them.
struct Quants {
  __m256i low;
  __m256i high;

  Quants(const std::byte* block, size_t half, size_t chunk) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i both =
        load32(block + offsetof(Q4::Block, quants) + chunk * 4 * Q4::kTileRows + half * 32);
    keep(both);
    low = _mm256_and_si256(both, mask);
    high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
  }
};

[[gnu::always_inline]] inline __m256i four_values(const int8_t* values) {
  int32_t four;
  std::memcpy(&four, values, sizeof(four));
  return _mm256_set1_epi32(four);
}

// The sums of a group fit an int16: 32 / 4 lanes of two products of 15 * 127.
struct FewRows {
  using Floats = __m256;
  static constexpr size_t kVectors = 2;
  // Their sums fill the registers; more rows pay for a panel.
  static constexpr size_t kMostRows = 4;
  template <size_t kRows>
  static constexpr size_t kTiles = 1;
  static constexpr size_t kBlocksAhead = 32;

  static Floats zero() { return _mm256_setzero_ps(); }
  static void store(float* p, Floats x) { _mm256_storeu_ps(p, x); }

  // Both halves share what is broadcast of one or two rows; the sums of more fill the registers.
  template <size_t kRows>
  [[gnu::always_inline]] static inline void add_pair(const std::byte* block,
                                                     const FirstTerms<kRows>& terms,
                                                     Floats (&chains)[kVectors][kRows]) {
    constexpr size_t kHalves = kRows <= 2 ? 2 : 1;
#pragma GCC unroll 2
    for (size_t half = 0; half < kVectors; half += kHalves) {
      add_halves<kRows, kHalves>(block, half, terms, chains + half);
    }
  }

  template <size_t kRows, size_t kHalves>
  [[gnu::always_inline]] static inline void add_halves(const std::byte* block, size_t first,
                                                       const FirstTerms<kRows>& terms,
                                                       Floats (*chains)[kRows]) {
    __m256i low[kHalves * kRows];
    __m256i high[kHalves * kRows];
#pragma GCC unroll 4
    for (size_t i = 0; i < kHalves * kRows; ++i) low[i] = high[i] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (size_t k = 0; k < Q4::kChunks; ++k) {
      const auto& values = terms.values[k];
#pragma GCC unroll 2
      for (size_t half = 0; half < kHalves; ++half) {
        const Quants quants(block, first + half, k);
#pragma GCC unroll 4
        for (size_t r = 0; r < kRows; ++r) {
          const size_t i = half * kRows + r;
          low[i] = _mm256_add_epi16(
              low[i], _mm256_maddubs_epi16(quants.low, _mm256_set1_epi32(values[0][r])));
          high[i] = _mm256_add_epi16(
              high[i], _mm256_maddubs_epi16(quants.high, _mm256_set1_epi32(values[1][r])));
        }
      }
    }
#pragma GCC unroll 2
    for (size_t half = 0; half < kHalves; ++half) {
      const Numbers numbers(block, first + half);
#pragma GCC unroll 4
      for (size_t r = 0; r < kRows; ++r) {
        const size_t i = half * kRows + r;
        Floats part = _mm256_mul_ps(whole(low[i]), _mm256_set1_ps(terms.scales[0][r]));
        part = _mm256_fmadd_ps(whole(high[i]), _mm256_set1_ps(terms.scales[1][r]), part);
        part = _mm256_fmadd_ps(numbers.offset, _mm256_set1_ps(terms.sums[r]), part);
        chains[half][r] = _mm256_fmadd_ps(part, numbers.scale, chains[half][r]);
      }
    }
  }

  static void add_second(const std::byte* block, size_t of_pair, size_t half, const int8_t* values,
                         float scale, float sum, Floats& chain) {
    __m256i total = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (size_t k = 0; k < Q4::kChunks; ++k) {
      const Quants quants(block, half, k);
      total = _mm256_add_epi16(total, _mm256_maddubs_epi16(of_pair == 0 ? quants.low : quants.high,
                                                           four_values(values + k * 4)));
    }
    const Numbers numbers(block, half);
    Floats part = _mm256_mul_ps(whole(total), _mm256_set1_ps(scale));
    part = _mm256_fmadd_ps(numbers.offset, _mm256_set1_ps(sum), part);
    chain = _mm256_fmadd_ps(part, numbers.scale, chain);
  }

  static Floats whole(__m256i sums) { return _mm256_cvtepi32_ps(widen_pairs(sums)); }
};

struct Q4Panels : Registers {
  static constexpr size_t kTileRows = Q4::kTileRows;
  static constexpr int kBias = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMinimum = true;
  static constexpr bool kPairs = true;

  // Tiles are as the panel wants them, two groups a byte.
  static void unpack(const MatmulArgs& args, size_t out, size_t, size_t group, size_t groups,
                     generic::Panel<Q4Panels>& panel) {
    const std::byte* block =
        args.weights + out / Q4::kTileRows * args.row_bytes + group / 2 * sizeof(Q4::Block);
    for (size_t g = 0; g < groups; g += 2, block += sizeof(Q4::Block)) {
      for (size_t half = 0; half < 2; ++half) {
        const Numbers numbers(block, half);
        for (size_t of_pair = 0; of_pair < 2; ++of_pair) {
          store(panel.scales[g + of_pair] + half * kHalfRows, numbers.scale);
          store(panel.minimums[g + of_pair] + half * kHalfRows, numbers.offset);
        }
#pragma GCC unroll 8
        for (size_t k = 0; k < Q4::kChunks; ++k) {
          const Quants quants(block, half, k);
          store32(panel.quants[g][k][half * kHalfRows], quants.low);
          store32(panel.quants[g + 1][k][half * kHalfRows], quants.high);
        }
      }
    }
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Q4Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t* bias_sums, Floats* sums) {
    sums_of<Q4Panels, 8, false>(panel, group, x, bias_sums, sums);
  }
};

void matmul_q4(const MatmulArgs& args) {
  if (args.rows <= FewRows::kMostRows) {
    matmul_few_rows_q4<FewRows>(args);
  } else {
    generic::matmul_q8_panels<Q4Panels>(args);
  }
}

}  // namespace

void fill_matmul_q4(KernelTable& table) { table.matmul_q8[kAt<Format::kQ4>] = matmul_q4; }

}  // namespace phidias::avx2
