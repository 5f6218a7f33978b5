#include "model/blocks/attention.h"

#include <algorithm>
#include <cstring>

#include "model/blocks/attention_explicit.h"
#include "model/blocks/residual.h"

namespace phidias {
namespace {

// Queries and keys are rotated where they lie; keys and values go into the cache, rounded to its
// type, before any query sees them: so a row sees the same numbers whether its keys came with this
// step or an earlier one.
//
// A tap on queries, keys or values is between the two parts.
template <bool kRotate, bool kStore>
void rotate_and_store(const BlockArgs& args, const BatchRun& run, size_t row) {
  const AttentionSpec& attention = args.spec.attention;
  const KvLayout& layout = args.layout;
  const KernelTable& kernels = *args.context.kernels;
  const size_t dim = attention.head_dim;
  const size_t half = args.spec.rope.rotary_dims / 2;
  float* queries = args.state.qkv.data() + row * attention.qkv_width();
  float* keys = queries + attention.query_width();
  const float* values = keys + attention.kv_width();
  const float* cosine = args.state.rotation.data() + row * 2 * half;
  if constexpr (kRotate) {
    for (size_t h = 0; h < attention.heads; ++h)
      kernels.rope(queries + h * dim, cosine, cosine + half, half);
    for (size_t h = 0; h < attention.kv_heads; ++h)
      kernels.rope(keys + h * dim, cosine, cosine + half, half);
  }
  if constexpr (kStore) {
    const KvStoreFn store_key = kernels.store_key[index_of(layout.type)];
    const KvStoreFn store_value = kernels.store_value[index_of(layout.type)];
    const size_t position = args.state.positions[row];
    std::byte* page = run.cache.pages[position / layout.page_positions];
    const size_t slot = position % layout.page_positions;
    for (size_t h = 0; h < attention.kv_heads; ++h) {
      store_key(keys + h * dim, page + layout.key_offset(args.layer, h), slot, dim);
      store_value(values + h * dim, page + layout.value_offset(args.layer, h), slot, dim);
    }
  }
}

// All rows at once, whatever sequences they are of.
void for_each_row(const BlockArgs& args, void (*work)(const BlockArgs&, const BatchRun&, size_t)) {
  args.context.threads->run(args.state.rows, 1, [&](size_t begin, size_t end, size_t) {
    size_t first_row = 0;
    for (const BatchRun& run : args.batch.runs) {
      const size_t end_row = first_row + run.tokens.size();
      for (size_t row = std::max(begin, first_row); row < std::min(end, end_row); ++row)
        work(args, run, row);
      first_row = end_row;
    }
  });
}

constexpr size_t kTileRows = kAttentionPass / 2;

// Bits of the key blocks that each row and each head of a group see; rows of one query block share
// them. Room was reserved by reserve_visible().
void mark_visible(const BlockArgs& args, const AttentionTile& tile, size_t kv_head,
                  VisibleBlocks& visible) {
  const BlockSparse& blocks = *args.spec.mask.blocks;
  const size_t group = args.spec.attention.group();
  visible.lists.clear();
  visible.bits.clear();
  size_t marked = SIZE_MAX;
  for (size_t r = 0; r < tile.rows; ++r) {
    const size_t query_block = args.state.positions[tile.first_row + r] / blocks.block;
    const size_t words = query_block / 64 + 1;
    if (query_block != marked) {
      marked = query_block;
      for (size_t g = 0; g < group; ++g) {
        for (size_t word = 0; word < words; ++word) {
          visible.bits.push_back(blocks.bits(kv_head * group + g, query_block, word));
        }
      }
    }
    for (size_t g = 0; g < group; ++g)
      visible.lists.push_back(visible.bits.data() + visible.bits.size() - (group - g) * words);
  }
}

// So that workers need not allocate and lists stay where they are.
void reserve_visible(const BlockArgs& args, size_t longest) {
  const size_t group = args.spec.attention.group();
  const size_t words = longest / args.spec.mask.blocks->block / 64 + 1;
  args.state.visible.resize(args.context.threads->threads());
  for (VisibleBlocks& visible : args.state.visible) {
    visible.lists.reserve(kTileRows * group);
    visible.bits.reserve(kTileRows * group * words);
  }
}

void attend(const BlockArgs& args, const AttentionTile& tile, size_t head, size_t thread) {
  const AttentionSpec& attention = args.spec.attention;
  const KvLayout& layout = args.layout;
  StepState& state = args.state;
  const size_t dim = attention.head_dim;
  const size_t last_end = state.end_keys[tile.first_row + tile.rows - 1];
  const size_t page_count = (last_end + layout.page_positions - 1) / layout.page_positions;
  auto& pages = state.page_lists[thread];
  pages.resize(2 * page_count);
  for (size_t p = 0; p < page_count; ++p) {
    pages[p] = tile.run->cache.pages[p] + layout.key_offset(args.layer, head);
    pages[page_count + p] = tile.run->cache.pages[p] + layout.value_offset(args.layer, head);
  }
  AttentionArgs kernel;
  kernel.key_pages = pages.data();
  kernel.value_pages = pages.data() + page_count;
  kernel.page_positions = layout.page_positions;
  kernel.head_dim = dim;
  kernel.group = attention.group();
  kernel.queries =
      state.qkv.data() + tile.first_row * attention.qkv_width() + head * attention.group() * dim;
  kernel.query_stride = attention.qkv_width();
  kernel.out = state.heads.row(tile.first_row) + head * attention.group() * dim;
  kernel.out_stride = attention.query_width();
  kernel.rows = tile.rows;
  kernel.first_key = state.first_keys.data() + tile.first_row;
  kernel.end_key = state.end_keys.data() + tile.first_row;
  kernel.scale = attention.score_scale();
  if (args.spec.mask.sparse(args.layer)) {
    mark_visible(args, tile, head, state.visible[thread]);
    kernel.visible = state.visible[thread].lists.data();
    kernel.visible_positions = args.spec.mask.blocks->block;
  }
  kernel.scratch = args.context.scratch[thread].data();
  const KernelTable& kernels = *args.context.kernels;
  (args.context.numerics == Numerics::kExact ? kernels.attention_exact
                                             : kernels.attention[index_of(layout.type)])(kernel);
}

// qkv_output has the order of the checkpoint's rows, where that is not ours.
void tap_grouped(const BlockArgs& args, StepTaps& taps) {
  if (!taps.wants(Site::kQkvOutput)) return;
  const AttentionSpec& attention = args.spec.attention;
  const size_t width = attention.qkv_width();
  const std::vector<RowSpan> order = grouped_rows(attention);
  std::vector<float> grouped(args.state.rows * width);
  const auto each_span = [&](const auto& copy) {
    for (size_t r = 0; r < args.state.rows; ++r) {
      float* ours = args.state.qkv.data() + r * width;
      for (const RowSpan& span : order) {
        copy(ours, grouped.data() + r * width + span.first, span.count * sizeof(float));
        ours += span.count;
      }
    }
  };
  each_span(
      [](const float* ours, float* theirs, size_t bytes) { std::memcpy(theirs, ours, bytes); });
  taps.at(Site::kQkvOutput, grouped.data(), width, width);
  each_span(
      [](float* ours, const float* theirs, size_t bytes) { std::memcpy(ours, theirs, bytes); });
}
void tap_grouped(const BlockArgs&, NoTaps&) {}

// Runs whose scores or probabilities are looked at, beside what attend() gave them, and in its
// place where they are changed.
void attend_explicitly(const BlockArgs& args, const StepTaps& taps) {
  size_t first_row = 0;
  for (size_t i = 0; i < args.batch.runs.size(); ++i) {
    const BatchRun& run = args.batch.runs[i];
    if (taps.wants_pattern(i)) attention_explicit(args, run, first_row);
    first_row += run.tokens.size();
  }
}

}  // namespace

template <class Taps>
void attention_block(const BlockArgs& args, Taps& taps) {
  const AttentionSpec& attention = args.spec.attention;
  StepState& state = args.state;
  RunContext& context = args.context;
  const size_t width = args.spec.width;
  taps.at(Site::kLayerInput, state.stream.data(), width, width);
  norm_stream(args, args.weights.attention_norm, args.weights.attention_norm_bias);
  taps.at(Site::kAttentionNormOutput, state.normed.row(0), width, width);
  state.qkv.ensure(state.rows * attention.qkv_width());
  linear(context, args.weights.qkv, state.normed, state.qkv.data(), attention.qkv_width(),
         args.weights.qkv_bias);
  if (args.spec.grouped_qkv) {
    tap_grouped(args, taps);
  } else {
    taps.at(Site::kQkvOutput, state.qkv.data(), attention.qkv_width(), attention.qkv_width());
  }
  taps.at(Site::kPreRotary, state.qkv.data(), attention.qkv_width(), attention.qkv_width());
  if (taps.wants(Site::kAttentionQueries) || taps.wants(Site::kAttentionKeys) ||
      taps.wants(Site::kAttentionValues)) {
    for_each_row(args, rotate_and_store<true, false>);
    float* queries = state.qkv.data();
    float* keys = queries + attention.query_width();
    taps.at(Site::kAttentionQueries, queries, attention.qkv_width(), attention.query_width());
    taps.at(Site::kAttentionKeys, keys, attention.qkv_width(), attention.kv_width());
    taps.at(Site::kAttentionValues, keys + attention.kv_width(), attention.qkv_width(),
            attention.kv_width());
    for_each_row(args, rotate_and_store<false, true>);
  } else {
    for_each_row(args, rotate_and_store<true, true>);
  }

  std::vector<AttentionTile>& tiles = state.tiles;
  tiles.clear();
  size_t first_row = 0;
  for (const BatchRun& run : args.batch.runs) {
    for (size_t i = 0; i < run.tokens.size(); i += kTileRows) {
      tiles.push_back({&run, first_row + i, std::min(kTileRows, run.tokens.size() - i)});
    }
    first_row += run.tokens.size();
  }
  state.heads.resize(state.rows, attention.query_width());
  const size_t longest = *std::max_element(
      state.end_keys.begin(), state.end_keys.begin() + static_cast<ptrdiff_t>(state.rows));
  context.reserve_scratch(attention_scratch_floats(longest, attention.head_dim));
  const size_t threads = context.threads->threads();
  state.page_lists.resize(threads);
  for (auto& list : state.page_lists) {
    list.reserve(2 * (longest / args.layout.page_positions + 1));  // workers must not allocate
  }
  if (args.spec.mask.sparse(args.layer)) reserve_visible(args, longest);
  const size_t tasks = tiles.size() * attention.kv_heads;
  context.threads->run(threads, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t share = begin; share < end; ++share) {
      // Heads vary fastest and shares are dealt in turn, so that all threads work on rows of about
      // the same length.
      for (size_t task = share; task < tasks; task += threads) {
        attend(args, tiles[task / attention.kv_heads], task % attention.kv_heads, share);
      }
    }
  });

  if constexpr (Taps::kActive) attend_explicitly(args, taps);
  taps.at(Site::kAttentionHeadOutputs, state.heads.row(0), attention.query_width(),
          attention.query_width());
  taps.at(Site::kAttentionPremix, state.heads.row(0), attention.query_width(),
          attention.query_width());

  state.contribution.ensure(state.rows * width);
  linear(context, args.weights.attention_output, state.heads, state.contribution.data(), width,
         args.weights.attention_output_bias);
  taps.at(Site::kAttentionOutput, state.contribution.data(), width, width);
  add_contribution(args);
  taps.at(Site::kLayerMid, state.stream.data(), width, width);
}

template void attention_block<NoTaps>(const BlockArgs&, NoTaps&);
template void attention_block<StepTaps>(const BlockArgs&, StepTaps&);

}  // namespace phidias
