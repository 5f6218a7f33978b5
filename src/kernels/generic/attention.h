// Online softmax over a vector type: tiles of up to V::kRightRows queries go through the keys
// together, page by page.
//
// A query's own arithmetic never depends on its tile: scores are computed for all keys that any
// query of the tile sees, but those outside a query's own range are overwritten before they are
// used, and values are mixed in three runs: alone before the range that all share, together in it,
// alone after it.
#pragma once

#include "kernels/generic/dot.h"
#include "kernels/generic/exp.h"
#include "kernels/table.h"

namespace phidias::generic {

// Queries of a tile and their state; in the scratch of the call.
template <class V>
struct QueryTile {
  static constexpr size_t kMost = V::kRightRows;
  static constexpr size_t kScoreStride = kMaxPagePositions + kFloatLanes;

  size_t count = 0;
  const float* queries[kMost];
  float* out[kMost];
  size_t first[kMost];
  size_t end[kMost];
  float largest[kMost];
  float sum[kMost];
  float shrink[kMost];
  // Of the page at hand, relative to its begin: what the query sees.
  size_t page_first[kMost];
  size_t page_end[kMost];
  float* scores;  // [kMost][kScoreStride], by position in the page
  float* mixed;   // [kMost][head_dim]
  float* packed;  // [kMost][head_dim]: the queries side by side
};

// What a KvType's vectors are: Rows to read values with, and for int8 a scale of each vector.
template <class RowsOfType, bool kHasScale>
struct Stored {
  using Rows = RowsOfType;
  static constexpr bool kScale = kHasScale;
};

// scores[b][j] = the folded dot product of query b with key j, for keys [begin, end) of a page.
template <class V, class S, size_t kQueries>
void score_keys(const QueryTile<V>& tile, size_t query, const std::byte* keys, size_t bytes,
                size_t dim, size_t begin, size_t end) {
  constexpr size_t kStride = QueryTile<V>::kScoreStride;
  const float* packed = tile.packed + query * dim;
  float* scores = tile.scores + query * kStride;
  size_t j = begin;
  for (; j + V::kLeftRows <= end; j += V::kLeftRows) {
    float out[V::kLeftRows * kQueries];
    dot_chunk<V, typename S::Rows, V::kLeftRows, kQueries>(keys + j * bytes, bytes, 0, packed, dim,
                                                           dim, out);
    for (size_t a = 0; a < V::kLeftRows; ++a) {
      for (size_t b = 0; b < kQueries; ++b) scores[b * kStride + j + a] = out[a * kQueries + b];
    }
  }
  for (; j < end; ++j) {
    float out[kQueries];
    dot_chunk<V, typename S::Rows, 1, kQueries>(keys + j * bytes, bytes, 0, packed, dim, dim, out);
    for (size_t b = 0; b < kQueries; ++b) scores[b * kStride + j] = out[b];
  }
}

// Scores to weights for one query, and its maximum and sum brought up to date.
template <class V>
void soften(QueryTile<V>& tile, size_t b) {
  using Floats = typename V::Floats;
  float* scores = tile.scores + b * QueryTile<V>::kScoreStride;
  const size_t begin = tile.page_first[b] / kFloatLanes * kFloatLanes;
  const size_t end = (tile.page_end[b] + kFloatLanes - 1) / kFloatLanes * kFloatLanes;
  const float hidden = -__builtin_inff();
  for (size_t j = begin; j < tile.page_first[b]; ++j) scores[j] = hidden;
  for (size_t j = tile.page_end[b]; j < end; ++j) scores[j] = hidden;

  Floats most = V::set(tile.largest[b]);
  for (size_t j = begin; j < end; j += V::kLanes) most = V::max(V::load(scores + j), most);
  const float previous = tile.largest[b];
  const float largest = V::largest(most);
  const Floats subtract = V::set(largest);
  constexpr size_t kPasses = kFloatLanes / V::kLanes;
  Floats sums[kPasses];
  for (size_t pass = 0; pass < kPasses; ++pass) sums[pass] = V::zero();
  for (size_t j = begin; j < end; j += kFloatLanes) {
    for (size_t pass = 0; pass < kPasses; ++pass) {
      float* at = scores + j + pass * V::kLanes;
      const Floats weight = exp_floats<V>(V::sub(V::load(at), subtract));
      V::store(at, weight);
      sums[pass] = V::add(sums[pass], weight);
    }
  }
  Floats sum = sums[0];
  if constexpr (kPasses == 2) sum = V::add(sum, sums[1]);
  float shrink[V::kLanes];
  V::store(shrink, exp_floats<V>(V::set(previous - largest)));
  tile.shrink[b] = shrink[0];
  tile.largest[b] = largest;
  tile.sum[b] = tile.sum[b] * shrink[0] + V::fold(sum);
}

// Adds weighted values of keys [begin, end) to dimensions [d, d + kWidth * kLanes) of kQueries
// queries; with `rest`, kWidth is 1 and only that many dimensions are there.
template <class V, class S, size_t kQueries, size_t kWidth, bool kPartial>
[[gnu::always_inline]] inline void mix_strip(const QueryTile<V>& tile, size_t query,
                                             const std::byte* values, size_t bytes, size_t dim,
                                             size_t d, size_t rest, size_t begin, size_t end) {
  using Floats = typename V::Floats;
  constexpr size_t kStride = QueryTile<V>::kScoreStride;
  const float* weights = tile.scores + query * kStride;
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
  for (size_t j = begin; j < end; ++j) {
    const std::byte* row = values + j * bytes;
    Floats weight[kQueries];
#pragma GCC unroll 8
    for (size_t b = 0; b < kQueries; ++b) weight[b] = V::set(weights[b * kStride + j]);
#pragma GCC unroll 16
    for (size_t w = 0; w < kWidth; ++w) {
      const size_t at = d + w * V::kLanes;
      const Floats value = kPartial ? S::Rows::load_partial(row, at, rest) : S::Rows::load(row, at);
#pragma GCC unroll 8
      for (size_t b = 0; b < kQueries; ++b) {
        sums[b][w] = V::fma(weight[b], value, sums[b][w]);
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

template <class V, class S, size_t kQueries>
void mix_values(const QueryTile<V>& tile, size_t query, const std::byte* values, size_t bytes,
                size_t dim, size_t begin, size_t end) {
  if (begin >= end) return;
  // A lone query has registers for many sums, and needs them to hide the latency of each.
  constexpr size_t kWidth = kQueries == 1 ? V::kWideStrip : V::kStrip;
  size_t d = 0;
  for (; d + kWidth * V::kLanes <= dim; d += kWidth * V::kLanes) {
    mix_strip<V, S, kQueries, kWidth, false>(tile, query, values, bytes, dim, d, 0, begin, end);
  }
  for (; d + V::kLanes <= dim; d += V::kLanes) {
    mix_strip<V, S, kQueries, 1, false>(tile, query, values, bytes, dim, d, 0, begin, end);
  }
  if (d < dim) {
    mix_strip<V, S, kQueries, 1, true>(tile, query, values, bytes, dim, d, dim - d, begin, end);
  }
}

// One page for all queries of a tile. positions: those of a page.
template <class V, class S, size_t kQueries>
void attend_page(QueryTile<V>& tile, const std::byte* keys, const std::byte* values, size_t bytes,
                 size_t dim, float scale) {
  constexpr size_t kStride = QueryTile<V>::kScoreStride;
  // All that any query sees, and what all of them see.
  size_t begin = kMaxPagePositions, end = 0, shared_begin = 0, shared_end = kMaxPagePositions;
  for (size_t b = 0; b < kQueries; ++b) {
    if (tile.page_first[b] < tile.page_end[b]) {
      if (tile.page_first[b] < begin) begin = tile.page_first[b];
      if (tile.page_end[b] > end) end = tile.page_end[b];
    }
    if (tile.page_first[b] > shared_begin) shared_begin = tile.page_first[b];
    if (tile.page_end[b] < shared_end) shared_end = tile.page_end[b];
  }
  if (shared_end < shared_begin) shared_end = shared_begin;

  score_keys<V, S, kQueries>(tile, 0, keys, bytes, dim, begin, end);
  const auto scale_of = [&](const std::byte* vectors, size_t j) {
    float own;
    __builtin_memcpy(&own, vectors + (j + 1) * bytes - sizeof(own), sizeof(own));
    return own;
  };
  for (size_t b = 0; b < kQueries; ++b) {
    if (tile.page_first[b] >= tile.page_end[b]) continue;
    float* scores = tile.scores + b * kStride;
    for (size_t j = tile.page_first[b]; j < tile.page_end[b]; ++j) {
      if constexpr (S::kScale) scores[j] *= scale_of(keys, j);
      scores[j] *= scale;
    }
    soften(tile, b);
    if constexpr (S::kScale) {
      for (size_t j = tile.page_first[b]; j < tile.page_end[b]; ++j) {
        scores[j] *= scale_of(values, j);
      }
    }
    float* mixed = tile.mixed + b * dim;
    for (size_t d = 0; d < dim; ++d) mixed[d] *= tile.shrink[b];
    if constexpr (kQueries > 1) {
      const size_t alone_end = tile.page_end[b] < shared_begin ? tile.page_end[b] : shared_begin;
      mix_values<V, S, 1>(tile, b, values, bytes, dim, tile.page_first[b], alone_end);
    }
  }
  mix_values<V, S, kQueries>(tile, 0, values, bytes, dim, shared_begin, shared_end);
  if constexpr (kQueries > 1) {
    for (size_t b = 0; b < kQueries; ++b) {
      if (tile.page_first[b] >= tile.page_end[b]) continue;
      const size_t alone = tile.page_first[b] > shared_end ? tile.page_first[b] : shared_end;
      mix_values<V, S, 1>(tile, b, values, bytes, dim, alone, tile.page_end[b]);
    }
  }
}

template <class V, class S>
void attention(const AttentionArgs& args, size_t bytes) {
  using Tile = QueryTile<V>;
  const size_t dim = args.head_dim;
  Tile tile;
  tile.scores = args.scratch;
  tile.mixed = tile.scores + Tile::kMost * Tile::kScoreStride;
  tile.packed = tile.mixed + Tile::kMost * dim;
  const size_t queries = args.rows * args.group;
  for (size_t begin = 0; begin < queries;) {
    tile.count = 0;
    size_t first = SIZE_MAX, end = 0;
    for (; begin < queries && tile.count < Tile::kMost; ++begin) {
      const size_t r = begin / args.group;
      const size_t g = begin % args.group;
      float* out = args.out + r * args.out_stride + g * dim;
      if (args.first_key[r] >= args.end_key[r]) {
        for (size_t d = 0; d < dim; ++d) out[d] = 0;
        continue;
      }
      const size_t b = tile.count++;
      const float* query = args.queries + r * args.query_stride + g * dim;
      for (size_t d = 0; d < dim; ++d) {
        tile.packed[b * dim + d] = query[d];
        tile.mixed[b * dim + d] = 0;
      }
      tile.out[b] = out;
      tile.first[b] = args.first_key[r];
      tile.end[b] = args.end_key[r];
      tile.largest[b] = -__builtin_inff();
      tile.sum[b] = 0;
      if (tile.first[b] < first) first = tile.first[b];
      if (tile.end[b] > end) end = tile.end[b];
    }
    if (tile.count == 0) continue;
    with_constant<Tile::kMost>(tile.count, [&](auto count) {
      for (size_t page = first / args.page_positions; page * args.page_positions < end; ++page) {
        const size_t page_begin = page * args.page_positions;
        bool seen = false;
        for (size_t b = 0; b < count.kValue; ++b) {
          // Clamped to the page: an empty range has its first at its end.
          const size_t from = tile.first[b] > page_begin ? tile.first[b] - page_begin : 0;
          const size_t to = tile.end[b] > page_begin ? tile.end[b] - page_begin : 0;
          tile.page_end[b] = to < args.page_positions ? to : args.page_positions;
          tile.page_first[b] = from < tile.page_end[b] ? from : tile.page_end[b];
          seen = seen || tile.page_first[b] < tile.page_end[b];
        }
        if (!seen) continue;
        attend_page<V, S, count.kValue>(tile, args.key_pages[page], args.value_pages[page], bytes,
                                        dim, args.scale);
      }
      for (size_t b = 0; b < count.kValue; ++b) {
        for (size_t d = 0; d < dim; ++d) tile.out[b][d] = tile.mixed[b * dim + d] / tile.sum[b];
      }
    });
  }
}

}  // namespace phidias::generic
