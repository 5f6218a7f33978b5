#include "model/blocks/attention_explicit.h"

#include <algorithm>
#include <cstring>

#include "kernels/attention_explicit.h"
#include "kernels/order.h"
#include "model/taps.h"

namespace phidias {
namespace {

// Scores that exist at once: 16 MiB, and as much for the probabilities.
constexpr size_t kTileFloats = size_t{1} << 22;

class ExplicitAttention {
 public:
  ExplicitAttention(const BlockArgs& args, const BatchRun& run, size_t first_row)
      : args_(args),
        run_(run),
        first_row_(first_row),
        heads_(args.spec.attention.heads),
        group_(args.spec.attention.group()),
        dim_(args.spec.attention.head_dim),
        keys_(run.position + run.tokens.size()),
        wanted_(run.taps->sites(args.layer)),
        tap_(run.taps->attention(args.layer)) {}

  void run() {
    const size_t tile_rows =
        std::clamp<size_t>(kTileFloats / (heads_ * keys_), 1, run_.tokens.size());
    scores_.ensure(tile_rows * heads_ * keys_);
    probabilities_.ensure(tile_rows * heads_ * keys_);
    const size_t threads = args_.context.threads->threads();
    gathered_.resize(threads);
    for (Gathered& own : gathered_) {
      own.plain.ensure(kv_blocks(keys_) * kKvBlock * dim_);
      if (tap_.call_edits) own.edited.ensure(kv_blocks(keys_) * kKvBlock * dim_);
      own.rows.ensure(keys_ * dim_);
      own.weights.ensure(keys_ + kDoubleLanes);
    }
    for (size_t row = 0; row < run_.tokens.size(); row += tile_rows) {
      tile(row, std::min(tile_rows, run_.tokens.size() - row));
    }
  }

 private:
  // Of one thread: one head's keys in blocks as in a page, or its values [keys, dim].
  struct Gathered {
    AlignedBuffer<float> plain;
    AlignedBuffer<float> edited;
    AlignedBuffer<float> rows;      // [keys, dim]
    AlignedBuffer<double> weights;  // room for a softmax
  };
  struct Range {
    size_t begin;
    size_t end;
  };

  // Keys that a row can see: all that there are where a tap may lift the mask.
  Range seen(size_t row) const {
    if (tap_.lifts) return {0, keys_};
    return {args_.state.first_keys[first_row_ + row], args_.state.end_keys[first_row_ + row]};
  }
  float* entries(AlignedBuffer<float>& pattern, size_t tile_row, size_t head) const {
    return pattern.data() + (tile_row * heads_ + head) * keys_;
  }

  // Decodes one head's keys or values from the cache; with edits that are no part of it, twice.
  void gather(Site site, size_t head, Gathered& own) const {
    const KvLayout& layout = args_.layout;
    const KvTypeRow& type = kv_type_row(layout.type);
    const bool keys = site == Site::kAttentionKeys;
    const size_t offset =
        keys ? layout.key_offset(args_.layer, head) : layout.value_offset(args_.layer, head);
    const KvLoadFn load = keys ? type.load_key : type.load_value;
    for (size_t position = 0; position < keys_; ++position) {
      const std::byte* page = run_.cache.pages[position / layout.page_positions] + offset;
      load(page, position % layout.page_positions, own.rows.data() + position * dim_, dim_);
    }
    arrange(keys, own.rows.data(), own.plain.data());
    if (!tap_.call_edits) return;
    run_.taps->edit_gathered(site, args_.layer, head, {own.rows.data(), keys_, dim_, dim_, 0});
    arrange(keys, own.rows.data(), own.edited.data());
  }
  void arrange(bool keys, const float* rows, float* to) const {
    if (!keys) {
      std::memcpy(to, rows, keys_ * dim_ * sizeof(float));
      return;
    }
    const KvStoreFn store = args_.context.kernels->store_key[index_of(KvType::kF32)];
    for (size_t position = 0; position < keys_; ++position)
      store(rows + position * dim_, reinterpret_cast<std::byte*>(to), position, dim_);
  }
  const float* vectors(const Gathered& own, size_t row) const {
    const auto position = static_cast<uint32_t>(run_.position + row);
    const bool edited = tap_.call_edits && run_.taps->sees_call_edits(args_.layer, position);
    return edited ? own.edited.data() : own.plain.data();
  }

  void score(size_t row, size_t rows) {
    const MaskSpec& mask = args_.spec.mask;
    const bool sparse = mask.sparse(args_.layer);
    const size_t stride = args_.spec.attention.qkv_width();
    each_kv_head([&](size_t kv_head, Gathered& own) {
      gather(Site::kAttentionKeys, kv_head, own);
      for (size_t r = 0; r < rows; ++r) {
        const uint32_t first = args_.state.first_keys[first_row_ + row + r];
        const uint32_t end = args_.state.end_keys[first_row_ + row + r];
        for (size_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
          float* out = entries(scores_, r, head);
          std::fill(out, out + keys_, kHiddenScore);
          args_.context.kernels->attention_scores(
              args_.state.qkv.data() + (first_row_ + row + r) * stride + head * dim_,
              vectors(own, row + r), dim_, first, end, args_.spec.attention.score_scale(), out);
          if (!sparse) continue;
          for (uint32_t key = first; key < end; ++key) {
            if (!mask.sees(args_.layer, head, end - 1, key)) out[key] = kHiddenScore;
          }
        }
      }
    });
  }

  void soften(size_t row, size_t rows) {
    args_.context.threads->run(rows * heads_, 1, [&](size_t begin, size_t end, size_t thread) {
      for (size_t i = begin; i < end; ++i) {
        const Range range = seen(row + i / heads_);
        float* out = probabilities_.data() + i * keys_;
        std::fill(out, out + keys_, 0.0F);
        attention_softmax(*args_.context.kernels, scores_.data() + i * keys_ + range.begin,
                          range.end - range.begin, gathered_[thread].weights.data(),
                          out + range.begin);
      }
    });
  }

  void mix(size_t row, size_t rows) {
    each_kv_head([&](size_t kv_head, Gathered& own) {
      gather(Site::kAttentionValues, kv_head, own);
      for (size_t r = 0; r < rows; ++r) {
        const Range range = seen(row + r);
        for (size_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
          args_.context.kernels->attention_mix(
              entries(probabilities_, r, head) + range.begin,
              vectors(own, row + r) + range.begin * dim_, dim_, range.end - range.begin,
              args_.state.heads.row(first_row_ + row + r) + head * dim_);
        }
      }
    });
  }

  void tile(size_t row, size_t rows) {
    SitePattern pattern;
    pattern.data = scores_.data();
    pattern.scores = scores_.data();
    pattern.rows = rows;
    pattern.heads = heads_;
    pattern.keys = keys_;
    pattern.position = static_cast<uint32_t>(run_.position + row);
    score(row, rows);
    if (wants(Site::kAttentionScores))
      run_.taps->visit_pattern(Site::kAttentionScores, args_.layer, pattern);
    if (!tap_.edits && !wants(Site::kAttentionProbabilities)) return;
    soften(row, rows);
    pattern.data = probabilities_.data();
    if (wants(Site::kAttentionProbabilities))
      run_.taps->visit_pattern(Site::kAttentionProbabilities, args_.layer, pattern);
    if (tap_.edits) mix(row, rows);
  }

  bool wants(Site site) const { return (wanted_ & mask_of(site)) != 0; }
  template <typename Work>
  void each_kv_head(Work&& work) {
    args_.context.threads->run(args_.spec.attention.kv_heads, 1,
                               [&](size_t begin, size_t end, size_t thread) {
                                 for (size_t h = begin; h < end; ++h) work(h, gathered_[thread]);
                               });
  }

  const BlockArgs& args_;
  const BatchRun& run_;
  size_t first_row_;
  size_t heads_;
  size_t group_;
  size_t dim_;
  size_t keys_;
  SiteMask wanted_;
  AttentionTap tap_;
  AlignedBuffer<float> scores_;         // [tile rows, heads, keys]
  AlignedBuffer<float> probabilities_;  // likewise
  std::vector<Gathered> gathered_;
};

}  // namespace

void attention_explicit(const BlockArgs& args, const BatchRun& run, size_t first_row) {
  ExplicitAttention(args, run, first_row).run();
}

}  // namespace phidias
