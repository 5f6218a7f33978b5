#include "phidias/attribution.h"

#include <algorithm>
#include <cmath>

#include "api/model_impl.h"
#include "base/invalid.h"
#include "base/try.h"
#include "kernels/attention_explicit.h"

namespace phidias {
namespace {

bool softmax_follows(ValueId id) {
  return id == ValueId::kAttentionQueries || id == ValueId::kAttentionKeys;
}

// What a layer's attention needs for AtP*.
struct Pattern {
  const Tensor* queries;        // [1, H, N, d]
  const Tensor* keys;           // [1, K, N, d]
  const Tensor* scores;         // [1, H, N, N]
  const Tensor* probabilities;  // likewise
  const Tensor* gradient;       // of the probabilities
};
constexpr ValueId kPatternReads[] = {ValueId::kAttentionQueries, ValueId::kAttentionKeys,
                                     ValueId::kAttentionScores, ValueId::kAttentionProbabilities};

double dot(const float* a, const float* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// The change of the probabilities' part of the metric when one query is the clean one.
std::vector<float> star_of_queries(const Pattern& pattern, const Tensor& clean, double scale) {
  const size_t heads = clean.shape[1], positions = clean.shape[2], dim = clean.shape[3];
  const size_t group = heads / pattern.keys->shape[1];
  std::vector<float> result;
  std::vector<double> weights(positions);
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < positions; ++i) {
      const size_t row = (h * positions + i) * positions;
      const float* query = clean.floats.data() + (h * positions + i) * dim;
      double largest = -std::numeric_limits<double>::infinity();
      for (size_t j = 0; j < positions; ++j) {
        if (pattern.scores->floats[row + j] == kHiddenScore) continue;
        const float* key = pattern.keys->floats.data() + (h / group * positions + j) * dim;
        weights[j] = scale * dot(query, key, dim);
        largest = std::max(largest, weights[j]);
      }
      double sum = 0;
      double weighted = 0;
      double before = 0;
      for (size_t j = 0; j < positions; ++j) {
        if (pattern.scores->floats[row + j] == kHiddenScore) continue;
        const auto gradient = static_cast<double>(pattern.gradient->floats[row + j]);
        const double weight = std::exp(weights[j] - largest);
        sum += weight;
        weighted += weight * gradient;
        before += static_cast<double>(pattern.probabilities->floats[row + j]) * gradient;
      }
      result.push_back(sum > 0 ? static_cast<float>(weighted / sum - before) : 0.0F);
    }
  }
  return result;
}

// The same for one key: it changes one score of each query that sees it. With P its probability, e
// the factor of its weight and R the row's sum of gradient times probability, the row changes by
// R (1 / Z - 1) + G P (e - 1) / Z, Z = 1 + P (e - 1).
std::vector<float> star_of_keys(const Pattern& pattern, const Tensor& clean, double scale) {
  const size_t kv_heads = clean.shape[1], positions = clean.shape[2], dim = clean.shape[3];
  const size_t group = pattern.queries->shape[1] / kv_heads;
  std::vector<double> result(kv_heads * positions);
  for (size_t h = 0; h < kv_heads * group; ++h) {
    for (size_t i = 0; i < positions; ++i) {
      const size_t row = (h * positions + i) * positions;
      const float* probabilities = pattern.probabilities->floats.data() + row;
      const float* gradient = pattern.gradient->floats.data() + row;
      const double whole = dot(probabilities, gradient, positions);
      const float* query = pattern.queries->floats.data() + (h * positions + i) * dim;
      for (size_t j = 0; j < positions; ++j) {
        const float score = pattern.scores->floats[row + j];
        if (score == kHiddenScore) continue;
        const float* key = clean.floats.data() + (h / group * positions + j) * dim;
        const double factor = std::expm1(scale * dot(query, key, dim) - static_cast<double>(score));
        const auto probability = static_cast<double>(probabilities[j]);
        const double normalizer = 1 + probability * factor;
        result[h / group * positions + j] +=
            whole * (1 / normalizer - 1) +
            static_cast<double>(gradient[j]) * probability * factor / normalizer;
      }
    }
  }
  return {result.begin(), result.end()};
}

class Attributor {
 public:
  Attributor(Engine& engine, std::span<const TokenId> clean, std::span<const TokenId> corrupt,
             const Metric& metric, std::span<const ValueRef> values,
             const AttributionOptions& options)
      : engine_(engine),
        clean_(clean.begin(), clean.end()),
        corrupt_(corrupt.begin(), corrupt.end()),
        metric_(metric),
        values_(values),
        options_(options) {}

  Result<Attribution> run() {
    PHIDIAS_CHECK_OK(check());
    PHIDIAS_TRY(clean_run_, run_of(clean_, {}));
    PHIDIAS_TRY(corrupt_run_, run_of(corrupt_, {}));
    runs_ = 2;
    if (options_.method == AttributionMethod::kIntegrated) {
      runs_ += options_.steps * value_count();
    } else if (options_.drop) {
      runs_ += engine_.model().info().num_layers;
    }
    PHIDIAS_CHECK_OK(tell(2));
    result_.clean = clean_run_.metric;
    result_.corrupt = corrupt_run_.metric;
    result_.entries.assign(corrupt_run_.entries.begin(),
                           corrupt_run_.entries.begin() + static_cast<ptrdiff_t>(value_count()));
    if (options_.method == AttributionMethod::kIntegrated) {
      PHIDIAS_CHECK_OK(integrate());
    } else if (options_.drop) {
      PHIDIAS_CHECK_OK(drop_each_layer());
    } else {
      for (size_t i = 0; i < result_.entries.size(); ++i) {
        PHIDIAS_TRY(result_.entries[i].tensor, estimate(corrupt_run_, i));
      }
    }
    return std::move(result_);
  }

 private:
  // More runs are done.
  Status tell(size_t count) {
    done_ += count;
    if (!options_.progress || options_.progress(done_, runs_)) return {};
    return Error{Code::kCancelled, "the attribution was stopped", {}};
  }

  Status check() const {
    if (clean_.size() != corrupt_.size()) {
      return invalid("the clean text has " + std::to_string(clean_.size()) +
                     " tokens, the corrupt one " + std::to_string(corrupt_.size()) +
                     "; they must be as many");
    }
    if (values_.empty()) return invalid("no value is asked for");
    if (options_.steps == 0) return invalid("must be at least 1", "steps");
    for (const ValueRef& value : values_) {
      if (options_.method == AttributionMethod::kStar && softmax_follows(value.id) &&
          value.selection != Selection()) {
        return invalid("is attributed whole by this method; leave out the selection",
                       value.to_string());
      }
    }
    return {};
  }

  // A run of values, then of their gradients, then of what AtP* needs. `cut` is the layer whose
  // contributions pass no gradient.
  Result<Traced> run_of(const std::vector<TokenId>& ids, std::optional<size_t> cut) {
    Trace trace(engine_, ids,
                {.rope_switch = options_.rope_switch, .max_bytes = options_.max_bytes});
    for (const ValueRef& value : values_) trace.read(Read{value, Read::Moment::kAfter});
    for (const ValueRef& value : values_) trace.read(Read{value, Read::Moment::kGradient});
    if (options_.method == AttributionMethod::kStar &&
        std::any_of(values_.begin(), values_.end(),
                    [](const ValueRef& value) { return softmax_follows(value.id); })) {
      for (const ValueId id : kPatternReads) trace.read(Read{ValueRef{id, {false, 0}, {}}});
      trace.read(Read{ValueRef{ValueId::kAttentionProbabilities, {false, 0}, {}},
                      Read::Moment::kGradient});
    }
    if (cut) {
      const auto& layer = kValues.layers[static_cast<int32_t>(*cut)];
      trace.scale_gradient(layer.self_attn.attention_output, 0);
      trace.scale_gradient(layer.mlp.mlp_output, 0);
    }
    trace.metric(metric_);
    return trace.run();
  }

  // Entries of the values themselves: one for each layer of each.
  size_t value_count() const {
    return static_cast<size_t>(
        std::count_if(corrupt_run_.entries.begin(), corrupt_run_.entries.end(),
                      [&](const Traced::Entry& entry) { return entry.read < values_.size(); }));
  }

  const Tensor& pattern_part(const Traced& run, size_t part, size_t layer) const {
    return run.of(2 * values_.size() + part, layer);
  }

  // Of the i-th entry, with the gradients of `run`.
  Result<Tensor> estimate(const Traced& run, size_t i) const {
    const Traced::Entry& entry = corrupt_run_.entries[i];
    const Tensor& clean = clean_run_.entries[i].tensor;
    const ValueId id = values_[entry.read].id;
    if (options_.method == AttributionMethod::kStar && softmax_follows(id)) {
      const Pattern pattern = {
          &pattern_part(run, 0, entry.layer), &pattern_part(run, 1, entry.layer),
          &pattern_part(run, 2, entry.layer), &pattern_part(run, 3, entry.layer),
          &pattern_part(run, 4, entry.layer)};
      const auto scale = static_cast<double>(engine_.model().impl().spec.attention.score_scale());
      std::vector<uint64_t> shape = clean.shape;
      shape.back() = 1;
      return Tensor::of(std::move(shape), id == ValueId::kAttentionQueries
                                              ? star_of_queries(pattern, clean, scale)
                                              : star_of_keys(pattern, clean, scale));
    }
    const Tensor& gradient = run.entries[value_count() + i].tensor;
    Tensor product = gradient;
    for (size_t k = 0; k < product.floats.size(); ++k)
      product.floats[k] *= clean.floats[k] - entry.tensor.floats[k];
    return product;
  }

  Status drop_each_layer() {
    const size_t layers = engine_.model().info().num_layers;
    std::vector<std::vector<double>> sums(result_.entries.size());
    for (size_t layer = 0; layer < layers; ++layer) {
      PHIDIAS_TRY(const Traced run, run_of(corrupt_, layer));
      PHIDIAS_CHECK_OK(tell(1));
      for (size_t i = 0; i < sums.size(); ++i) {
        PHIDIAS_TRY(const Tensor part, estimate(run, i));
        sums[i].resize(part.floats.size());
        result_.entries[i].tensor = part;
        for (size_t k = 0; k < part.floats.size(); ++k)
          sums[i][k] += static_cast<double>(std::abs(part.floats[k]));
      }
    }
    // Each effect is cut in its own layer: it is counted layers - 1 times.
    const double count = static_cast<double>(std::max<size_t>(layers, 2) - 1);
    for (size_t i = 0; i < sums.size(); ++i) {
      for (size_t k = 0; k < sums[i].size(); ++k)
        result_.entries[i].tensor.floats[k] = static_cast<float>(sums[i][k] / count);
    }
    return {};
  }

  // One value of one layer at a time is moved.
  Status integrate() {
    for (size_t i = 0; i < result_.entries.size(); ++i) {
      const Traced::Entry& entry = corrupt_run_.entries[i];
      const Tensor& clean = clean_run_.entries[i].tensor;
      ValueRef value = values_[entry.read];
      value.layers = {true, static_cast<int32_t>(entry.layer)};
      std::vector<double> sum(entry.tensor.floats.size());
      for (uint32_t step = 0; step < options_.steps; ++step) {
        const double along = (step + 0.5) / options_.steps;
        Tensor between = entry.tensor;
        for (size_t k = 0; k < sum.size(); ++k) {
          between.floats[k] = static_cast<float>(static_cast<double>(between.floats[k]) +
                                                 along * (static_cast<double>(clean.floats[k]) -
                                                          static_cast<double>(between.floats[k])));
        }
        Trace trace(engine_, corrupt_,
                    {.rope_switch = options_.rope_switch, .max_bytes = options_.max_bytes});
        trace.edit(make_edit(value, EditOp::kSet, Operand(std::move(between))));
        trace.read(Read{value, Read::Moment::kGradient});
        trace.metric(metric_);
        PHIDIAS_TRY(const Traced run, trace.run());
        PHIDIAS_CHECK_OK(tell(1));
        const std::vector<float>& gradient = run.entries.front().tensor.floats;
        for (size_t k = 0; k < sum.size(); ++k) sum[k] += static_cast<double>(gradient[k]);
      }
      Tensor& result = result_.entries[i].tensor;
      for (size_t k = 0; k < sum.size(); ++k) {
        result.floats[k] = static_cast<float>(
            sum[k] / options_.steps *
            (static_cast<double>(clean.floats[k]) - static_cast<double>(entry.tensor.floats[k])));
      }
    }
    return {};
  }

  Engine& engine_;
  std::vector<TokenId> clean_;
  std::vector<TokenId> corrupt_;
  const Metric& metric_;
  std::span<const ValueRef> values_;
  AttributionOptions options_;
  Traced clean_run_;
  Traced corrupt_run_;
  Attribution result_;
  size_t done_ = 0;
  size_t runs_ = 0;
};

}  // namespace

Result<Attribution> attribute(Engine& engine, std::span<const TokenId> clean,
                              std::span<const TokenId> corrupt, const Metric& metric,
                              std::span<const ValueRef> values, const AttributionOptions& options) {
  return Attributor(engine, clean, corrupt, metric, values, options).run();
}

}  // namespace phidias
