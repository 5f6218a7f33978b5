#include "gradient/attention.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "kernels/order.h"

namespace phidias {
namespace {

// Queries of a tile: as many as one chain of kernels/order.h may sum.
constexpr size_t kTile = kChunkRows;

// Vectors of one head in a matrix of rows.
struct HeadRows {
  const float* data;
  size_t stride;

  const float* row(size_t r) const { return data + r * stride; }
};

// One query head, tile by tile.
class HeadGradient {
 public:
  struct Buffers {
    float* probabilities;
    float* gradient;
    double* softmax;
    double* queries;
    double* keys;
    double* values;
    float* matmul;
  };
  struct Rows {
    HeadRows queries, keys, values, output_gradient;
    float* query_gradient;  // row r at r * queries.stride
  };

  HeadGradient(const KernelTable& kernels, const AttentionGradientArgs& args, size_t head,
               const Rows& rows, const Buffers& buffers)
      : kernels_(&kernels), args_(&args), head_(head), rows_(rows), buffers_(buffers) {}

  // Visit(site, rows of the gradient) is called between the steps for the sites in `sites`.
  template <class Visit>
  void run(size_t first_query, size_t count, SiteMask sites, Visit&& visit) {
    query_ = first_query;
    count_ = count;
    begin_ = args_->patterns != nullptr ? 0 : args_->first_keys[first_query];
    end_ = args_->patterns != nullptr ? args_->positions : args_->end_keys[first_query + count - 1];
    const SiteRows gradient = {buffers_.gradient, count, args_->positions, args_->positions,
                               static_cast<uint32_t>(first_query)};
    find_probabilities();
    if ((sites & mask_of(Site::kAttentionProbabilities)) != 0) {
      dot(rows_.output_gradient, rows_.values, 0, args_->positions, buffers_.gradient);
      visit(Site::kAttentionProbabilities, gradient);
    } else {
      dot(rows_.output_gradient, rows_.values, begin_, end_, buffers_.gradient);
    }
    through_softmax();
    if ((sites & mask_of(Site::kAttentionScores)) != 0) {
      clear_hidden(buffers_.gradient, 0, args_->positions);
      visit(Site::kAttentionScores, gradient);
    }
    clear_hidden(buffers_.gradient, begin_, end_);
    add_products();
  }

 private:
  // Of the tile's row r in a pattern of all heads.
  const float* entries(const float* pattern, size_t r) const {
    return pattern + ((query_ + r) * args_->spec.attention.heads + head_) * args_->positions;
  }
  float* row(float* tile, size_t r) const { return tile + r * args_->positions; }

  // y[r, j] = x[r] . weights[j] for the tile's rows and the keys [begin, end).
  void dot(const HeadRows& x, const HeadRows& weights, size_t begin, size_t end, float* y) const {
    MatmulArgs args;
    args.weights = reinterpret_cast<const std::byte*>(weights.row(begin));
    args.row_bytes = weights.stride * sizeof(float);
    args.cols = args_->spec.attention.head_dim;
    args.out_end = end - begin;
    args.x = x.row(query_);
    args.x_stride = x.stride;
    args.rows = count_;
    args.y = y + begin;
    args.y_stride = args_->positions;
    args.scratch = buffers_.matmul;
    kernels_->matmul_f32[index_of(Format::kF32)](args);
  }

  // Calls f(row, key) for the keys in [begin, end) that the row does not see by the mask.
  template <class F>
  void each_hidden(size_t begin, size_t end, F f) const {
    const bool sparse = args_->spec.mask.sparse(args_->layer);
    for (size_t r = 0; r < count_; ++r) {
      const size_t query = query_ + r;
      const size_t first = std::clamp<size_t>(args_->first_keys[query], begin, end);
      const size_t last = std::clamp<size_t>(args_->end_keys[query], first, end);
      for (size_t j = begin; j < first; ++j) f(r, j);
      for (size_t j = first; sparse && j < last; ++j) {
        if (!args_->spec.mask.sees(args_->layer, head_, static_cast<uint32_t>(query),
                                   static_cast<uint32_t>(j))) {
          f(r, j);
        }
      }
      for (size_t j = last; j < end; ++j) f(r, j);
    }
  }
  // With edits, what is hidden has no probability and with it no gradient already.
  void clear_hidden(float* tile, size_t begin, size_t end) const {
    if (args_->patterns != nullptr) return;
    each_hidden(begin, end, [&](size_t r, size_t j) { row(tile, r)[j] = 0; });
  }

  void find_probabilities() const {
    if (args_->patterns != nullptr) {
      for (size_t r = 0; r < count_; ++r) {
        std::copy_n(entries(args_->patterns->softmax, r), args_->positions,
                    row(buffers_.probabilities, r));
      }
      return;
    }
    const float scale = args_->spec.attention.score_scale();
    dot(rows_.queries, rows_.keys, begin_, end_, buffers_.probabilities);
    each_hidden(begin_, end_, [&](size_t r, size_t j) {
      row(buffers_.probabilities, r)[j] = -std::numeric_limits<float>::infinity();
    });
    for (size_t r = 0; r < count_; ++r) {
      float* scores = row(buffers_.probabilities, r) + begin_;
      for (size_t j = 0; j < end_ - begin_; ++j) scores[j] *= scale;
      kernels_->softmax(scores, buffers_.softmax, scores, end_ - begin_);
    }
  }

  // ds = p (dp - sum p dp)
  void through_softmax() const {
    for (size_t r = 0; r < count_; ++r) {
      const float* probabilities = row(buffers_.probabilities, r);
      float* gradient = row(buffers_.gradient, r);
      double mean = 0;
      for (size_t j = begin_; j < end_; ++j) {
        mean += static_cast<double>(probabilities[j]) * static_cast<double>(gradient[j]);
      }
      for (size_t j = begin_; j < end_; ++j) {
        gradient[j] = static_cast<float>(static_cast<double>(probabilities[j]) *
                                         (static_cast<double>(gradient[j]) - mean));
      }
    }
  }

  void add_products() const {
    const size_t dim = args_->spec.attention.head_dim;
    const size_t positions = args_->positions;
    const float scale = args_->spec.attention.score_scale();
    for (size_t r = 0; r < count_; ++r) {
      float* gradient = row(buffers_.gradient, r);
      for (size_t j = begin_; j < end_; ++j) gradient[j] *= scale;
    }
    TransposedArgs args;
    args.cols = dim;
    args.total_stride = dim;

    std::fill_n(buffers_.queries, count_ * dim, 0.0);
    args.weight_stride = rows_.keys.stride;
    args.row_stride = positions;
    args.rows = count_;
    args.totals = buffers_.queries;
    for (size_t j = begin_; j < end_; j += kChunkRows) {
      args.weights = rows_.keys.row(j);
      args.outs = std::min(kChunkRows, end_ - j);
      args.x = buffers_.gradient + j;
      kernels_->add_transposed(args);
    }
    for (size_t r = 0; r < count_; ++r) {
      float* out = rows_.query_gradient + (query_ + r) * rows_.queries.stride;
      for (size_t d = 0; d < dim; ++d) out[d] = static_cast<float>(buffers_.queries[r * dim + d]);
    }

    // Of keys and values: the tiles are read as their transposes.
    args.outs = count_;
    args.row_stride = 1;
    args.out_stride = positions;
    args.rows = end_ - begin_;
    args.weights = rows_.queries.row(query_);
    args.weight_stride = rows_.queries.stride;
    args.x = buffers_.gradient + begin_;
    args.totals = buffers_.keys + begin_ * dim;
    kernels_->add_transposed(args);
    args.weights = rows_.output_gradient.row(query_);
    args.weight_stride = rows_.output_gradient.stride;
    args.x = buffers_.probabilities + begin_;
    if (args_->patterns != nullptr) {
      args.x = entries(args_->patterns->mixed, 0);
      args.out_stride = args_->spec.attention.heads * positions;
    }
    args.totals = buffers_.values + begin_ * dim;
    kernels_->add_transposed(args);
  }

  const KernelTable* kernels_;
  const AttentionGradientArgs* args_;
  size_t head_;
  Rows rows_;
  Buffers buffers_;
  // The tile: its queries, and the keys that any of them may see.
  size_t query_ = 0;
  size_t count_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

void AttentionGradient::run(RunContext& context, const AttentionGradientArgs& args,
                            GradientTaps& taps) {
  const AttentionSpec& attention = args.spec.attention;
  const size_t dim = attention.head_dim;
  const size_t positions = args.positions;
  // All memory before the threads start: what fails there could not be told.
  scratch_.resize(context.threads->threads());
  for (Scratch& scratch : scratch_) {
    scratch.probabilities.ensure(kTile * positions);
    scratch.gradient.ensure(kTile * positions);
    scratch.softmax.ensure(positions + kDoubleLanes);
    scratch.queries.ensure(kTile * dim);
    scratch.keys.ensure(positions * dim);
    scratch.values.ensure(positions * dim);
    scratch.matmul.ensure(matmul_scratch_floats(dim));
  }
  const SiteMask sites = taps.sites(args.layer);
  std::mutex one_visit;
  const auto run_group = [&](size_t kv_head, Scratch& scratch) {
    std::fill_n(scratch.keys.data(), positions * dim, 0.0);
    std::fill_n(scratch.values.data(), positions * dim, 0.0);
    const size_t stride = attention.qkv_width();
    const size_t key_column = attention.query_width() + kv_head * dim;
    const size_t value_column = key_column + attention.kv_width();
    for (size_t g = 0; g < attention.group(); ++g) {
      const size_t head = kv_head * attention.group() + g;
      HeadGradient gradient(*context.kernels, args, head,
                            {{args.qkv + head * dim, stride},
                             {args.qkv + key_column, stride},
                             {args.qkv + value_column, stride},
                             {args.heads_gradient + head * dim, attention.query_width()},
                             args.qkv_gradient + head * dim},
                            {scratch.probabilities.data(), scratch.gradient.data(),
                             scratch.softmax.data(), scratch.queries.data(), scratch.keys.data(),
                             scratch.values.data(), scratch.matmul.data()});
      for (size_t query = 0; query < positions; query += kTile) {
        gradient.run(query, std::min(kTile, positions - query), sites,
                     [&](Site site, const SiteRows& rows) {
                       const std::lock_guard lock(one_visit);
                       taps.visit_pattern(site, args.layer, head, rows);
                     });
      }
    }
    for (size_t r = 0; r < positions; ++r) {
      float* row = args.qkv_gradient + r * stride;
      for (size_t d = 0; d < dim; ++d) {
        row[key_column + d] = static_cast<float>(scratch.keys[r * dim + d]);
        row[value_column + d] = static_cast<float>(scratch.values[r * dim + d]);
      }
    }
  };
  context.threads->run(attention.kv_heads, 1, [&](size_t begin, size_t end, size_t thread) {
    for (size_t kv_head = begin; kv_head < end; ++kv_head) run_group(kv_head, scratch_[thread]);
  });
}

}  // namespace phidias
