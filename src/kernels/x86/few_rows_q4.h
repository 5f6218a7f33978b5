// Q4 for x86: its blocks, and matmul_q8 of few activation rows. Local to the including file.
//
// Few rows wait for memory, so nothing stands between a load and its product: quants go from the
// tile to a register, two halves of a byte at a time, and what comes next is asked for ahead of its
// turn. Where one stream alone leaves half of the memory unused, tiles are walked side by side.
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/table.h"
#include "kernels/x86/unpack.h"

namespace phidias {
namespace {
namespace x86 {

inline constexpr size_t kQ4Lines = (sizeof(Q4::Block) + 63) / 64;

// The sixteen offsets of a block of Q4, in quarters.
inline __m128i q4_offsets(const std::byte* block) {
  const __m128i packed =
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + offsetof(Q4::Block, offsets)));
  const __m128i both = _mm_unpacklo_epi64(packed, _mm_srli_epi16(packed, 4));
  return _mm_shuffle_epi8(load16(Q4::kOffsets), _mm_and_si128(both, _mm_set1_epi8(15)));
}

// The first terms of kRows rows in the order of their use: all of a block lies at constant places.
template <size_t kRows>
struct FirstTerms {
  int32_t values[Q4::kChunks][2][kRows];  // four columns of each row, of both halves in turn
  float scales[2][kRows];
  float sums[kRows];  // of both halves
};

template <size_t kRows>
void gather_first_terms(const QuantizedRows& q, size_t cols, FirstTerms<kRows>* blocks) {
  for (size_t r = 0; r < kRows; ++r) {
    const QuantizedRows row = q.from(r, cols);
    for (size_t block = 0; block < cols / Q4::kBlockValues; ++block) {
      FirstTerms<kRows>& terms = blocks[block];
      for (size_t half = 0; half < 2; ++half) {
        const size_t group = 2 * block + half;
        terms.scales[half][r] = row.scales[group];
        for (size_t k = 0; k < Q4::kChunks; ++k) {
          std::memcpy(&terms.values[k][half][r], row.values + group * kQuantGroup + k * 4,
                      sizeof(int32_t));
        }
      }
      terms.sums[r] = row.sums[2 * block] + row.sums[2 * block + 1];
    }
  }
}

// A is the arithmetic of an instruction set:
//   Floats     a register of floats, with store, zero
//   kVectors   registers for the rows of a tile
//   kMostRows  activation rows that it takes at once
//   kTiles<kRows>  tiles side by side
//   kBlocksAhead   blocks that are on their way at once, in all tiles together
//   add_pair(block, first_terms, chains [kVectors][kRows])
//   add_second(block, half, vector, values, scale, sum, chain)
template <class A, size_t kRows>
void multiply_few_rows_q4(const MatmulArgs& args) {
  using Floats = typename A::Floats;
  constexpr size_t kTiles = A::template kTiles<kRows>;
  constexpr size_t kVectors = A::kVectors;
  constexpr size_t kLanes = Q4::kTileRows / kVectors;
  constexpr size_t kAhead = A::kBlocksAhead / kTiles;
  constexpr size_t kChunkBlocks = kChunkColumns / Q4::kBlockValues;
  static_assert(sizeof(FirstTerms<kRows>) <= kScratchWeightRows * Q4::kBlockValues * sizeof(float));
  const size_t blocks = args.cols / Q4::kBlockValues;
  auto* terms = reinterpret_cast<FirstTerms<kRows>*>(args.scratch);
  gather_first_terms(args.q, args.cols, terms);
  const size_t last_tile = (args.out_end - 1) / Q4::kTileRows;
  for (size_t first = args.out_begin / Q4::kTileRows; first <= last_tile; first += kTiles) {
    const std::byte* tiles[kTiles];
    for (size_t t = 0; t < kTiles; ++t) {
      // Those to spare work on the last one.
      tiles[t] = args.weights + (first + t < last_tile ? first + t : last_tile) * args.row_bytes;
    }
    Floats chains[kTiles][kVectors][kRows];
    for (auto& tile : chains) {
      for (auto& vector : tile) {
        for (Floats& chain : vector) chain = A::zero();
      }
    }
    for (size_t chunk = 0; chunk < blocks; chunk += kChunkBlocks) {
      const size_t end = blocks - chunk < kChunkBlocks ? blocks : chunk + kChunkBlocks;
      for (size_t block = chunk; block < end; ++block) {
        // After a tile's end comes the beginning of the one that takes its place.
        const size_t skip = block + kAhead < blocks ? 0 : (kTiles - 1) * args.row_bytes;
#pragma GCC unroll 4
        for (size_t t = 0; t < kTiles; ++t) {
          const std::byte* at = tiles[t] + block * sizeof(Q4::Block);
          // It never faults: what lies beyond the last tile may be asked for.
#pragma GCC unroll 9
          for (size_t line = 0; line < kQ4Lines; ++line) {
            _mm_prefetch(
                reinterpret_cast<const char*>(at) + skip + kAhead * sizeof(Q4::Block) + line * 64,
                _MM_HINT_T0);
          }
          A::add_pair(at, terms[block], chains[t]);
        }
      }
      for (size_t g = 2 * chunk; g < 2 * end; ++g) {
        for (size_t r = 0; r < kRows; ++r) {
          const QuantizedRows row = args.q.from(r, args.cols);
          if (row.second_scales[g] == 0) continue;
          for (size_t t = 0; t < kTiles; ++t) {
            const std::byte* at = tiles[t] + g / 2 * sizeof(Q4::Block);
            for (size_t v = 0; v < kVectors; ++v) {
              A::add_second(at, g % 2, v, row.second_values + g * kQuantGroup, row.second_scales[g],
                            row.second_sums[g], chains[t][v][r]);
            }
          }
        }
      }
    }
    for (size_t t = 0; t < kTiles && first + t <= last_tile; ++t) {
      const size_t out = (first + t) * Q4::kTileRows;
      const size_t begin = out < args.out_begin ? args.out_begin - out : 0;
      const size_t end = args.out_end - out < Q4::kTileRows ? args.out_end - out : Q4::kTileRows;
      for (size_t r = 0; r < kRows; ++r) {
        alignas(64) float outs[Q4::kTileRows];
        for (size_t v = 0; v < kVectors; ++v) A::store(outs + v * kLanes, chains[t][v][r]);
        std::memcpy(args.y + r * args.y_stride + out + begin, outs + begin,
                    (end - begin) * sizeof(float));
      }
    }
  }
}

template <class A>
void matmul_few_rows_q4(const MatmulArgs& args) {
  if (args.out_begin >= args.out_end) return;
  generic::with_constant<A::kMostRows>(
      args.rows, [&](auto rows) { multiply_few_rows_q4<A, rows.kValue>(args); });
}

}  // namespace x86
}  // namespace
}  // namespace phidias
