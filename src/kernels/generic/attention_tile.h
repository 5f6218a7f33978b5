// One page of keys and values for a few queries: the arithmetic of online softmax over a vector
// type, in the order of order.h.
//
// Scores hold one key a lane, so that each is a chain over the dimensions; outputs hold one
// dimension a lane, so that each is a chain over the keys. A query's own arithmetic never depends
// on its tile: a block of keys is scored for all queries, but what a query does not see is
// overwritten before it is used, and only values that all of them see are mixed for all at once.
#pragma once

#include "kernels/attention.h"
#include "kernels/generic/dot.h"
#include "kernels/generic/exp.h"

namespace phidias::generic {

inline constexpr size_t kTileQueries = 6;
inline constexpr size_t kMaxPageBlocks = kMaxPagePositions / kKvBlock;
inline constexpr size_t kWeightStride = kMaxPagePositions + kKvBlock;
inline constexpr uint16_t kWholeBlock = 0xFFFF;
static_assert(kKvBlock == kFloatLanes && kKvBlock == 16);

// The elements of a KvType's blocks, and whether scales of the vectors follow them.
template <class RowsOfType, size_t kBytes, bool kHasScales>
struct Stored {
  using Rows = RowsOfType;
  static constexpr size_t kElementBytes = kBytes;
  static constexpr bool kScales = kHasScales;
};

// A page of one head. What is computed with may be the stored elements or a copy of them in floats;
// scales are always read where they are stored.
struct PageView {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  size_t block_bytes = 0;
  const std::byte* key_scales = nullptr;  // of the first block; each further one stored_bytes on
  const std::byte* value_scales = nullptr;
  size_t stored_bytes = 0;
  size_t blocks = 0;
  // The keys that are read after this page, to be fetched meanwhile.
  const std::byte* next = nullptr;
  const std::byte* next_end = nullptr;
};

// Queries that go through a page together.
struct Tile {
  size_t count = 0;
  const uint16_t (*seen)[kMaxPageBlocks] = nullptr;  // bit l of seen[b][i]: b sees key l of block i
  const float* packed = nullptr;                     // [dim][kTileQueries]
  float* mixed = nullptr;                            // [count][dim]
  float* largest = nullptr;                          // [count]
  float* sum = nullptr;                              // [count]
  float* weights = nullptr;                          // [kTileQueries][kWeightStride], by slot
};

constexpr size_t power_of_two_within(size_t n) {
  size_t power = 1;
  while (2 * power <= n) power *= 2;
  return power;
}

// weights[b][16 i + l] = the dot product of query b with key l of block i, for kBlocks blocks.
// `ahead`: what to fetch meanwhile, as much as is read.
template <class V, class Elements, size_t kQueries, size_t kBlocks, bool kFetch>
void score_blocks(const std::byte* keys, size_t block_bytes, size_t dim, const float* packed,
                  float* weights, const std::byte* ahead) {
  using Floats = typename V::Floats;
  constexpr size_t kRegisters = kKvBlock / V::kLanes;
  constexpr size_t kWidth = kBlocks * kRegisters;
  constexpr size_t kStep = kBlocks * kKvBlock * Elements::kElementBytes;
  Floats sums[kQueries][kWidth];
#pragma GCC unroll 8
  for (size_t b = 0; b < kQueries; ++b) {
#pragma GCC unroll 16
    for (size_t w = 0; w < kWidth; ++w) sums[b][w] = V::zero();
  }
  for (size_t d = 0; d < dim; ++d) {
    Floats key[kWidth];
#pragma GCC unroll 16
    for (size_t w = 0; w < kWidth; ++w) {
      key[w] = Elements::Rows::load(keys + w / kRegisters * block_bytes,
                                    d * kKvBlock + w % kRegisters * V::kLanes);
    }
#pragma GCC unroll 8
    for (size_t b = 0; b < kQueries; ++b) {
      const Floats query = V::set(packed[d * kTileQueries + b]);
#pragma GCC unroll 16
      for (size_t w = 0; w < kWidth; ++w) sums[b][w] = V::fma(key[w], query, sums[b][w]);
    }
    if constexpr (kFetch) {
#pragma GCC unroll 4
      for (size_t at = 0; at < kStep; at += 64) __builtin_prefetch(ahead + d * kStep + at);
    }
  }
#pragma GCC unroll 8
  for (size_t b = 0; b < kQueries; ++b) {
#pragma GCC unroll 16
    for (size_t w = 0; w < kWidth; ++w) {
      V::store(weights + b * kWeightStride + w * V::kLanes, sums[b][w]);
    }
  }
}

// Blocks [begin, end) of a page, kBlocks at a time while there are so many.
template <class V, class Elements, size_t kQueries, size_t kBlocks, bool kFetch>
void score_run(const Tile& tile, size_t query, const PageView& page, size_t dim, size_t begin,
               size_t end) {
  for (; begin + kBlocks <= end; begin += kBlocks) {
    const size_t at = begin * page.block_bytes;
    score_blocks<V, Elements, kQueries, kBlocks, kFetch>(
        page.keys + at, page.block_bytes, dim, tile.packed + query,
        tile.weights + query * kWeightStride + begin * kKvBlock, page.values + at);
  }
  if constexpr (kBlocks > 1) {
    if (begin < end) {
      score_run<V, Elements, kQueries, kBlocks / 2, kFetch>(tile, query, page, dim, begin, end);
    }
  }
}

// Scores to weights; the queries' maxima, sums and what they have mixed brought up to date.
template <class V, class S, size_t kQueries>
void soften(const Tile& tile, size_t query, const PageView& page, size_t dim, float scale) {
  using Floats = typename V::Floats;
  constexpr size_t kRegisters = kKvBlock / V::kLanes;
  const auto own_scales = [&](const std::byte* scales, size_t block, size_t r) {
    return V::load(reinterpret_cast<const float*>(scales + block * page.stored_bytes) +
                   r * V::kLanes);
  };

  float shrink[kFloatLanes] = {};
  for (size_t b = query; b < query + kQueries; ++b) {
    float* weights = tile.weights + b * kWeightStride;
    Floats most = V::set(tile.largest[b]);
    for (size_t block = 0; block < page.blocks; ++block) {
      const uint32_t seen = tile.seen[b][block];
      if (seen == 0) continue;
#pragma GCC unroll 4
      for (size_t r = 0; r < kRegisters; ++r) {
        float* at = weights + block * kKvBlock + r * V::kLanes;
        Floats score = V::load(at);
        if constexpr (S::kScales) score = V::mul(score, own_scales(page.key_scales, block, r));
        score = V::mul(score, V::set(scale));
        if (seen != kWholeBlock) score = V::hide(score, seen >> (r * V::kLanes));
        V::store(at, score);
        most = V::max(score, most);
      }
    }
    const float largest = V::largest(most);
    shrink[b - query] = tile.largest[b] - largest;
    tile.largest[b] = largest;
  }
  for (size_t b = 0; b < kQueries; b += V::kLanes) {
    V::store(shrink + b, exp_floats<V>(V::load(shrink + b)));
  }

  for (size_t b = query; b < query + kQueries; ++b) {
    float* weights = tile.weights + b * kWeightStride;
    const Floats largest = V::set(tile.largest[b]);
    Floats sums[kRegisters];
    for (size_t r = 0; r < kRegisters; ++r) sums[r] = V::zero();
    for (size_t block = 0; block < page.blocks; ++block) {
      if (tile.seen[b][block] == 0) continue;
#pragma GCC unroll 4
      for (size_t r = 0; r < kRegisters; ++r) {
        float* at = weights + block * kKvBlock + r * V::kLanes;
        Floats weight = exp_floats<V>(V::sub(V::load(at), largest));
        sums[r] = V::add(sums[r], weight);
        if constexpr (S::kScales) weight = V::mul(weight, own_scales(page.value_scales, block, r));
        V::store(at, weight);
      }
    }
    // Folded in halves: first whole registers.
    for (size_t half = kRegisters / 2; half > 0; half /= 2) {
      for (size_t r = 0; r < half; ++r) sums[r] = V::add(sums[r], sums[r + half]);
    }
    const float factor = shrink[b - query];
    tile.sum[b] = tile.sum[b] * factor + V::fold(sums[0]);
    if (factor == 1) continue;
    float* mixed = tile.mixed + b * dim;
    size_t d = 0;
    for (; d + V::kLanes <= dim; d += V::kLanes) {
      V::store(mixed + d, V::mul(V::load(mixed + d), V::set(factor)));
    }
    for (; d < dim; ++d) mixed[d] *= factor;
  }
}

// Adds weighted values of slots [begin, end) to dimensions [d, d + kWidth * kLanes) of kQueries
// queries; with kPartial, kWidth is 1 and only `rest` dimensions are there.
template <class V, class Elements, size_t kQueries, size_t kWidth, bool kPartial, bool kFetch>
void mix_strip(const Tile& tile, size_t query, const PageView& page, size_t dim, size_t d,
               size_t rest, size_t begin, size_t end) {
  using Floats = typename V::Floats;
  using Rows = typename Elements::Rows;
  const size_t row_bytes = dim * Elements::kElementBytes;
  const float* weights = tile.weights + query * kWeightStride;
  float* mixed = tile.mixed + query * dim + d;
  Floats sums[kQueries][kWidth];
#pragma GCC unroll 8
  for (size_t b = 0; b < kQueries; ++b) {
#pragma GCC unroll 16
    for (size_t w = 0; w < kWidth; ++w) {
      const float* at = mixed + b * dim + w * V::kLanes;
      sums[b][w] = kPartial ? V::load_partial(at, rest) : V::load(at);
    }
  }
  const std::byte* ahead = page.next == nullptr ? nullptr : page.next + begin * row_bytes;
  for (size_t j = begin; j < end;) {
    const std::byte* row = page.values + j / kKvBlock * page.block_bytes + j % kKvBlock * row_bytes;
    const size_t block_end = (j / kKvBlock + 1) * kKvBlock;
    const size_t stop = block_end < end ? block_end : end;
    for (; j < stop; ++j, row += row_bytes) {
      Floats value[kWidth];
#pragma GCC unroll 16
      for (size_t w = 0; w < kWidth; ++w) {
        const size_t at = d + w * V::kLanes;
        value[w] = kPartial ? Rows::load_partial(row, at, rest) : Rows::load(row, at);
      }
#pragma GCC unroll 8
      for (size_t b = 0; b < kQueries; ++b) {
        const Floats weight = V::set(weights[b * kWeightStride + j]);
#pragma GCC unroll 16
        for (size_t w = 0; w < kWidth; ++w) sums[b][w] = V::fma(weight, value[w], sums[b][w]);
      }
      if constexpr (kFetch) {
        if (ahead < page.next_end) {
          for (size_t at = 0; at < row_bytes; at += 64) __builtin_prefetch(ahead + at);
          ahead += row_bytes;
        }
      }
    }
  }
#pragma GCC unroll 8
  for (size_t b = 0; b < kQueries; ++b) {
#pragma GCC unroll 16
    for (size_t w = 0; w < kWidth; ++w) {
      float* at = mixed + b * dim + w * V::kLanes;
      if constexpr (kPartial) {
        V::store_partial(at, sums[b][w], rest);
      } else {
        V::store(at, sums[b][w]);
      }
    }
  }
}

// All dimensions from d on, kWidth registers at a time while there are so many.
template <class V, class Elements, size_t kQueries, size_t kWidth, bool kFetch>
void mix_run(const Tile& tile, size_t query, const PageView& page, size_t dim, size_t d,
             size_t begin, size_t end) {
  for (; d + kWidth * V::kLanes <= dim; d += kWidth * V::kLanes) {
    if constexpr (kFetch) {  // what comes next, once
      if (d == 0) {
        mix_strip<V, Elements, kQueries, kWidth, false, true>(tile, query, page, dim, d, 0, begin,
                                                              end);
        continue;
      }
    }
    mix_strip<V, Elements, kQueries, kWidth, false, false>(tile, query, page, dim, d, 0, begin,
                                                           end);
  }
  if constexpr (kWidth > 1) {
    mix_run<V, Elements, kQueries, kWidth / 2, kFetch>(tile, query, page, dim, d, begin, end);
  } else if (d < dim) {
    mix_strip<V, Elements, kQueries, 1, true, false>(tile, query, page, dim, d, dim - d, begin,
                                                     end);
  }
}

// Calls run(block, end) for the runs of blocks of which some query of the tile sees a key.
template <size_t kQueries, class F>
[[gnu::always_inline]] inline void each_needed_run(const Tile& tile, size_t query, size_t blocks,
                                                   F&& run) {
  const auto is_needed = [&](size_t block) {
    for (size_t b = 0; b < kQueries; ++b) {
      if (tile.seen[query + b][block] != 0) return true;
    }
    return false;
  };
  for (size_t block = 0; block < blocks; ++block) {
    const size_t begin = block;
    while (block < blocks && is_needed(block)) ++block;
    if (begin < block) run(begin, block);
  }
}

// One page for queries [query, query + kQueries) of a tile, each of which sees a key of it.
template <class V, class S, class Elements, size_t kQueries, bool kFetch>
void attend_page(const Tile& tile, size_t query, const PageView& page, size_t dim, float scale) {
  constexpr size_t kRegisters = kKvBlock / V::kLanes;
  constexpr size_t kMostBlocks = V::kSums / (kQueries * kRegisters);
  constexpr size_t kBlocks = power_of_two_within(kMostBlocks < 4 ? kMostBlocks : 4);
  each_needed_run<kQueries>(tile, query, page.blocks, [&](size_t begin, size_t end) {
    score_run<V, Elements, kQueries, kBlocks, kFetch>(tile, query, page, dim, begin, end);
  });
  soften<V, S, kQueries>(tile, query, page, dim, scale);

  constexpr size_t kMostWidth = V::kSums / kQueries;
  constexpr size_t kWidth = power_of_two_within(kMostWidth < 8 ? kMostWidth : 8);
  constexpr size_t kLoneWidth = power_of_two_within(V::kSums < 8 ? V::kSums : 8);
  size_t run_begin = 0, run_end = 0;  // of slots that all see, not yet mixed
  const auto mix_together = [&] {
    if (run_begin == run_end) return;
    mix_run<V, Elements, kQueries, kWidth, kFetch>(tile, query, page, dim, 0, run_begin, run_end);
    run_begin = run_end;
  };
  for (size_t block = 0; block < page.blocks; ++block) {
    uint32_t all = kWholeBlock, any = 0;
    for (size_t b = 0; b < kQueries; ++b) {
      all &= tile.seen[query + b][block];
      any |= tile.seen[query + b][block];
    }
    const size_t first = block * kKvBlock;
    if (all == kWholeBlock && run_end == first) {
      run_end += kKvBlock;
      continue;
    }
    for (size_t l = 0; l < kKvBlock; ++l) {
      const uint32_t bit = 1U << l;
      if ((all & bit) != 0) {
        if (run_end != first + l) {
          mix_together();
          run_begin = first + l;
        }
        run_end = first + l + 1;
      } else if (kQueries > 1 && (any & bit) != 0) {
        mix_together();
        for (size_t b = 0; b < kQueries; ++b) {
          if ((tile.seen[query + b][block] & bit) == 0) continue;
          mix_run<V, Elements, 1, kLoneWidth, false>(tile, query + b, page, dim, 0, first + l,
                                                     first + l + 1);
        }
      }
    }
  }
  mix_together();
}

}  // namespace phidias::generic
