#include "kernels/avx512/panels.h"
#include "kernels/isa.h"
#include "kernels/places.h"
#include "kernels/x86/few_rows_q4.h"

namespace phidias::avx512_vnni {
namespace {

using namespace x86;

// Scale and offset of a block's sixteen rows; the offset negative.
struct Numbers {
  __m512 scale;
  __m512 offset;

  explicit Numbers(const std::byte* block) {
    const __m512i codes = _mm512_cvtepu8_epi32(load16(block + offsetof(Q4::Block, scales)));
    scale = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(codes, Q4::kScaleShift),
                                                 _mm512_set1_epi32(Q4::kScaleBits)));
    offset = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(q4_offsets(block))),
                           _mm512_set1_ps(-Q4::kOffsetUnit));
  }
};

// Both halves of four columns of a tile's rows.
struct Quants {
  __m512i low;
  __m512i high;

  Quants(const std::byte* block, size_t chunk) {
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i both = _mm512_loadu_si512(block + offsetof(Q4::Block, quants) + chunk * 64);
    low = _mm512_and_si512(both, mask);
    high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
  }
};

[[gnu::always_inline]] inline __m512i four_values(const int8_t* values) {
  int32_t four;
  std::memcpy(&four, values, sizeof(four));
  return _mm512_set1_epi32(four);
}

struct FewRows {
  using Floats = __m512;
  static constexpr size_t kVectors = 1;
  // More rows pay for a panel.
  static constexpr size_t kMostRows = 4;
  template <size_t kRows>
  static constexpr size_t kTiles = kRows <= 2 ? 4 : 2;
  static constexpr size_t kBlocksAhead = 8;

  static Floats zero() { return Vec::zero(); }
  static void store(float* p, Floats x) { Vec::store(p, x); }

  template <size_t kRows>
  [[gnu::always_inline]] static inline void add_pair(const std::byte* block,
                                                     const FirstTerms<kRows>& terms,
                                                     Floats (&chains)[kVectors][kRows]) {
    __m512i low[kRows];
    __m512i high[kRows];
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) low[r] = high[r] = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (size_t k = 0; k < Q4::kChunks; ++k) {
      const Quants quants(block, k);
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        low[r] = _mm512_dpbusd_epi32(low[r], quants.low, _mm512_set1_epi32(terms.values[k][0][r]));
        high[r] =
            _mm512_dpbusd_epi32(high[r], quants.high, _mm512_set1_epi32(terms.values[k][1][r]));
      }
    }
    const Numbers numbers(block);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      Floats part = Vec::mul(_mm512_cvtepi32_ps(low[r]), Vec::set(terms.scales[0][r]));
      part = Vec::fma(_mm512_cvtepi32_ps(high[r]), Vec::set(terms.scales[1][r]), part);
      part = Vec::fma(numbers.offset, Vec::set(terms.sums[r]), part);
      chains[0][r] = Vec::fma(part, numbers.scale, chains[0][r]);
    }
  }

  static void add_second(const std::byte* block, size_t half, size_t, const int8_t* values,
                         float scale, float sum, Floats& chain) {
    __m512i whole = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (size_t k = 0; k < Q4::kChunks; ++k) {
      const Quants quants(block, k);
      whole = _mm512_dpbusd_epi32(whole, half == 0 ? quants.low : quants.high,
                                  four_values(values + k * 4));
    }
    const Numbers numbers(block);
    const Floats part = Vec::mul(_mm512_cvtepi32_ps(whole), Vec::set(scale));
    chain = Vec::fma(Vec::fma(numbers.offset, Vec::set(sum), part), numbers.scale, chain);
  }
};

struct Q4Panels : Registers {
  static constexpr size_t kTileRows = Q4::kTileRows;
  static constexpr int kBias = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMinimum = true;
  static constexpr bool kPairs = true;

  static void unpack(const MatmulArgs& args, size_t out, size_t outs, size_t group, size_t groups,
                     generic::Panel<Q4Panels>& panel) {
    for (size_t v = 0; v < kVectors; ++v) {
      // A panel without a second tile works on the first one again.
      const size_t row = v * Q4::kTileRows < outs ? out + v * Q4::kTileRows : out;
      const std::byte* block =
          args.weights + row / Q4::kTileRows * args.row_bytes + group / 2 * sizeof(Q4::Block);
      for (size_t g = 0; g < groups; g += 2, block += sizeof(Q4::Block)) {
        const Numbers numbers(block);
#pragma GCC unroll 2
        for (size_t of_pair = 0; of_pair < 2; ++of_pair) {
          store(panel.scales[g + of_pair] + v * 16, numbers.scale);
          store(panel.minimums[g + of_pair] + v * 16, numbers.offset);
        }
#pragma GCC unroll 8
        for (size_t k = 0; k < Q4::kChunks; ++k) {
          const Quants quants(block, k);
          _mm512_store_si512(panel.quants[g][k][v * 16], quants.low);
          _mm512_store_si512(panel.quants[g + 1][k][v * 16], quants.high);
        }
      }
    }
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Q4Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t* bias_sums, Floats* sums) {
    sums_of<Q4Panels>(panel, group, x, bias_sums, sums);
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

}  // namespace phidias::avx512_vnni
