// Online softmax over a vector type: up to kAttentionPass queries go through the keys together,
// page by page, in tiles of kTileQueries.
#pragma once

#include "kernels/generic/attention_tile.h"
#include "kernels/visible.h"

namespace phidias::generic {

// The queries of a pass. Heads are outermost, so that the queries of a tile are rows of one head
// and see about the same.
struct QueryRange {
  const AttentionArgs& args;
  size_t begin;
  size_t count;

  size_t row(size_t i) const { return (begin + i) % args.rows; }
  size_t head(size_t i) const { return (begin + i) / args.rows; }
  const float* query(size_t i) const {
    return args.queries + row(i) * args.query_stride + head(i) * args.head_dim;
  }
  float* out(size_t i) const {
    return args.out + row(i) * args.out_stride + head(i) * args.head_dim;
  }
};

// The keys that a query sees.
struct SeenKeys {
  size_t first;
  size_t end;
  const uint64_t* list;
};

// Marks what is seen of a page; false if that is nothing.
[[gnu::always_inline]] inline bool mark_seen(const SeenKeys& keys, const AttentionArgs& args,
                                             size_t page, uint16_t (&seen)[kMaxPageBlocks]) {
  const size_t page_begin = page * args.page_positions;
  const size_t page_end = page_begin + args.page_positions;
  const size_t begin = keys.first > page_begin ? keys.first : page_begin;
  const size_t end = keys.end < page_end ? keys.end : page_end;
  bool any = false;
  for (size_t block = 0; block < kv_blocks(args.page_positions); ++block) seen[block] = 0;
  for_each_visible_run(keys.list, args.visible_positions, begin, end, [&](size_t from, size_t to) {
    any = true;
    const size_t first = from - page_begin, last = to - page_begin;
    for (size_t block = first / kKvBlock; block * kKvBlock < last; ++block) {
      const size_t at = block * kKvBlock;
      uint32_t bits = kWholeBlock;
      if (first > at) bits &= uint32_t{kWholeBlock} << (first - at);
      if (last < at + kKvBlock) bits &= uint32_t{kWholeBlock} >> (at + kKvBlock - last);
      seen[block] = static_cast<uint16_t>(seen[block] | bits);
    }
  });
  return any;
}

// The elements of blocks [0, blocks) as floats, where `needed` says so.
template <class V, class S>
void widen_blocks(const std::byte* stored, size_t stored_bytes, size_t dim, size_t blocks,
                  const uint16_t* needed, float* floats) {
  for (size_t block = 0; block < blocks; ++block) {
    if (needed[block] == 0) continue;
    const std::byte* src = stored + block * stored_bytes;
    float* dst = floats + block * kKvBlock * dim;
    for (size_t i = 0; i < kKvBlock * dim; i += V::kLanes) {
      V::store(dst + i, S::Rows::load(src, i));
    }
  }
}

// A tile and a page. If only some of its queries see the page, they go through it one by one.
template <class V, class S, class Elements, bool kFetch>
void attend_tile(const Tile& tile, const PageView& page, size_t dim, float scale) {
  bool sees[kTileQueries];
  size_t seeing = 0;
  for (size_t b = 0; b < tile.count; ++b) {
    uint32_t any = 0;
    for (size_t block = 0; block < page.blocks; ++block) any |= tile.seen[b][block];
    sees[b] = any != 0;
    seeing += sees[b] ? 1 : 0;
  }
  if (seeing == tile.count) {
    with_constant<kTileQueries>(tile.count, [&](auto count) {
      attend_page<V, S, Elements, count.kValue, kFetch>(tile, 0, page, dim, scale);
    });
    return;
  }
  for (size_t b = 0; b < tile.count; ++b) {
    if (sees[b]) attend_page<V, S, Elements, 1, kFetch>(tile, b, page, dim, scale);
  }
}

template <class V, class S>
void attend_queries(const QueryRange& queries) {
  using Floats = Stored<typename V::F32Rows, sizeof(float), false>;
  const AttentionArgs& args = queries.args;
  const size_t dim = args.head_dim;
  float* weights = args.scratch;
  float* wide_keys = weights + kTileQueries * kWeightStride;
  float* wide_values = wide_keys + kMaxPagePositions * dim;
  float* packed = wide_values + kMaxPagePositions * dim;
  float* mixed = packed + kAttentionPass * dim;
  float* largest = mixed + kAttentionPass * dim;
  float* sum = largest + kAttentionPass;
  uint16_t seen[kAttentionPass][kMaxPageBlocks];
  SeenKeys keys[kAttentionPass];

  size_t first = SIZE_MAX, end = 0;
  for (size_t i = 0; i < queries.count; ++i) {
    const float* query = queries.query(i);
    float* of_tile = packed + i / kTileQueries * kTileQueries * dim + i % kTileQueries;
    for (size_t d = 0; d < dim; ++d) {
      of_tile[d * kTileQueries] = query[d];
      mixed[i * dim + d] = 0;
    }
    largest[i] = -__builtin_inff();
    sum[i] = 0;
    const size_t r = queries.row(i);
    keys[i] = {args.first_key[r], args.end_key[r],
               args.visible == nullptr ? nullptr : args.visible[r * args.group + queries.head(i)]};
    if (keys[i].first < first) first = keys[i].first;
    if (keys[i].end > end) end = keys[i].end;
  }

  PageView view;
  view.blocks = kv_blocks(args.page_positions);
  view.stored_bytes =
      kKvBlock * (dim * S::kElementBytes + (S::kScales ? sizeof(float) : size_t{0}));
  const size_t scales_at = kKvBlock * dim * S::kElementBytes;
  const size_t pages = end / args.page_positions + (end % args.page_positions != 0 ? 1 : 0);
  const auto mark_page = [&](size_t page) {
    bool any = false;
    for (size_t i = 0; i < queries.count; ++i) any |= mark_seen(keys[i], args, page, seen[i]);
    return any;
  };
  const auto next_seen = [&](size_t page) {
    while (page < pages && !mark_page(page)) ++page;
    return page;
  };
  for (size_t page = first < end ? next_seen(first / args.page_positions) : pages; page < pages;
       page = next_seen(page + 1)) {
    view.keys = args.key_pages[page];
    view.values = args.value_pages[page];
    view.block_bytes = view.stored_bytes;
    view.key_scales = view.keys + scales_at;
    view.value_scales = view.values + scales_at;
    // What comes next is fetched meanwhile. Where parts are hidden that may be any page.
    view.next = nullptr;
    view.next_end = nullptr;
    if (args.visible == nullptr && page + 1 < pages) {
      const size_t left = end - (page + 1) * args.page_positions;
      const size_t blocks = kv_blocks(left < args.page_positions ? left : args.page_positions);
      view.next = args.key_pages[page + 1];
      view.next_end = view.next + blocks * view.stored_bytes;
    }
    Tile tile;
    tile.weights = weights;
    // Few queries read the elements where they lie.
    if (queries.count <= kTileQueries) {
      tile.count = queries.count;
      tile.seen = seen;
      tile.packed = packed;
      tile.mixed = mixed;
      tile.largest = largest;
      tile.sum = sum;
      attend_tile<V, S, S, true>(tile, view, dim, args.scale);
      continue;
    }
    if constexpr (!__is_same(typename S::Rows, typename V::F32Rows)) {
      uint16_t needed[kMaxPageBlocks] = {};
      for (size_t i = 0; i < queries.count; ++i) {
        for (size_t block = 0; block < view.blocks; ++block) needed[block] |= seen[i][block];
      }
      widen_blocks<V, S>(view.keys, view.stored_bytes, dim, view.blocks, needed, wide_keys);
      widen_blocks<V, S>(view.values, view.stored_bytes, dim, view.blocks, needed, wide_values);
      view.keys = reinterpret_cast<const std::byte*>(wide_keys);
      view.values = reinterpret_cast<const std::byte*>(wide_values);
      view.block_bytes = kKvBlock * dim * sizeof(float);
    }
    const size_t next_bytes = static_cast<size_t>(view.next_end - view.next);
    const size_t tiles = (queries.count + kTileQueries - 1) / kTileQueries;
    for (size_t t = 0; t < tiles; ++t) {
      const size_t i = t * kTileQueries;
      for (size_t at = next_bytes * t / tiles / 64 * 64; at < next_bytes * (t + 1) / tiles;
           at += 64) {
        __builtin_prefetch(view.next + at, 0, 2);
        __builtin_prefetch(args.value_pages[page + 1] + at, 0, 2);
      }
      tile.count = queries.count - i < kTileQueries ? queries.count - i : kTileQueries;
      tile.seen = seen + i;
      tile.packed = packed + i * dim;
      tile.mixed = mixed + i * dim;
      tile.largest = largest + i;
      tile.sum = sum + i;
      attend_tile<V, S, Floats, false>(tile, view, dim, args.scale);
    }
  }

  for (size_t i = 0; i < queries.count; ++i) {
    float* out = queries.out(i);
    // Zero only where no key was seen: the largest score has weight 1.
    for (size_t d = 0; d < dim; ++d) out[d] = sum[i] == 0 ? 0.0F : mixed[i * dim + d] / sum[i];
  }
}

template <class V, class Rows, size_t kElementBytes, bool kScales>
void attention(const AttentionArgs& args) {
  const size_t queries = args.rows * args.group;
  for (size_t begin = 0; begin < queries; begin += kAttentionPass) {
    const size_t left = queries - begin;
    attend_queries<V, Stored<Rows, kElementBytes, kScales>>(
        {args, begin, left < kAttentionPass ? left : kAttentionPass});
  }
}

}  // namespace phidias::generic
