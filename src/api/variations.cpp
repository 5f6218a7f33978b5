#include "phidias/variations.h"

#include <algorithm>
#include <numeric>

#include "api/logit_metric.h"
#include "api/model_impl.h"
#include "api/tapped_sequence.h"
#include "base/try.h"
#include "gradient/stored_run.h"
#include "trace/sequence_trace.h"

namespace phidias {
namespace {

// What a variation's edits leave as it is: all layers before `layer`, and in them and behind them
// all positions before `position`.
struct Start {
  size_t layer;
  size_t position;
};

// Whether a layer's attention is computed another way for all queries, with other roundings in fast
// numerics.
bool moves_attention(const Edit& edit) {
  return info_of(edit.value.id).layout == Layout::kPattern || edit.scope == EditScope::kCall ||
         edit.value.id == ValueId::kAttentionMask;
}

size_t first_layer(const Edit& edit, const ModelSpec& spec, const std::vector<size_t>& layers) {
  if (edit.op == EditOp::kSkip) {
    const int64_t from = edit.skip_from;
    return static_cast<size_t>(std::max<int64_t>(from < 0 ? from + spec.layers : from, 0));
  }
  if (!on_model(edit.value.id)) return layers.front();
  return source_of(edit.value.id).site >= Site::kFinalNormOutput ? spec.layers : 0;
}

class VariedRun {
 public:
  VariedRun(Engine& engine, const std::vector<TokenId>& ids, std::span<const Edits> variations,
            const VariationOptions& options)
      : stepper_(engine.stepper()),
        model_(engine.model().impl()),
        ids_(ids),
        variations_(variations),
        options_(options),
        sequence_options_{.rope_switch = options.rope_switch,
                          .prompt_tokens = static_cast<uint32_t>(ids.size())} {}

  Result<Variations> run(const Metric& metric) {
    if (ids_.empty()) return Error{Code::kInvalidArgument, "the text has no tokens", {}};
    PHIDIAS_TRY(metric_, LogitMetric::compile(metric, ids_, model_.spec.vocab));
    PHIDIAS_TRY(const auto starts, find_starts());
    PHIDIAS_TRY(auto taps, compile({}));
    stored_.tokens = tokens_of(taps);
    std::optional<StreamRecorder> recorder;
    try {
      recorder.emplace(model_.spec, stored_, &taps);
    } catch (const std::bad_alloc&) {
      return Error{Code::kOutOfMemory,
                   "no memory for the stored streams, " +
                       std::to_string(stored_run_bytes(model_.spec, ids_.size())) +
                       " bytes; give fewer tokens",
                   {}};
    }
    TappedSequence base(stepper_, sequence_options_, &*recorder);
    PHIDIAS_CHECK_OK(run_base(base.id()));
    stepper_.attach(base.id(), nullptr);

    result_.metric.resize(variations_.size());
    std::vector<size_t> order(variations_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return starts[a].layer < starts[b].layer; });
    for (size_t at = 0; at < order.size();) {
      size_t end = at;
      for (size_t rows = 0; end < order.size(); ++end) {
        rows += ids_.size() - starts[order[end]].position;
        if (starts[order[end]].layer != starts[order[at]].layer) break;
        if (end > at && rows > stepper_.options().step_rows) break;
      }
      if (options_.progress && !options_.progress(at, order.size()))
        return Error{Code::kCancelled, "was interrupted", {}};
      PHIDIAS_CHECK_OK(run_together(base.id(), std::span(order).subspan(at, end - at), starts));
      at = end;
    }
    if (options_.progress) options_.progress(order.size(), order.size());
    return std::move(result_);
  }

 private:
  Result<SequenceTrace> compile(const Edits& own) const {
    Edits edits = options_.edits;
    edits += own;
    return SequenceTrace::compile(
        {.reads = {},
         .edits = &edits,
         .prompt = ids_,
         .rows = ids_.size(),
         .step_rows = stepper_.options().step_rows,
         .max_bytes = UINT64_MAX},
        {&model_.spec, &model_.weights, &stepper_.rope(), stepper_.options().kv});
  }
  std::vector<TokenId> tokens_of(SequenceTrace& taps) const {
    std::vector<TokenId> tokens;
    for (size_t at = 0; at < ids_.size(); ++at) tokens.push_back(taps.fed(at, ids_[at]));
    return tokens;
  }

  Result<std::vector<Start>> find_starts() const {
    const bool lifted = std::any_of(options_.edits.begin(), options_.edits.end(),
                                    [](const Edit& edit) { return edit.lift; });
    const bool fast = stepper_.options().numerics == Numerics::kFast;
    std::vector<Start> starts;
    for (const Edits& edits : variations_) {
      Start start{model_.spec.layers, ids_.size() - 1};
      for (const Edit& edit : edits) {
        const std::string place = edit.value.to_string();
        PHIDIAS_TRY(const auto layers, resolve_layers(edit.value, model_.spec));
        PHIDIAS_TRY(const PositionSet at,
                    PositionSet::resolve(edit.value.selection.at, ids_, ids_.size(), place));
        start.layer = std::min(start.layer, first_layer(edit, model_.spec, layers));
        const bool from_start = lifted || edit.lift || (fast && moves_attention(edit));
        start.position = std::min(start.position, from_start ? 0 : at.first());
      }
      Edits all = options_.edits;
      all += edits;
      PHIDIAS_TRY(start.layer, begin_of_skips(all, start.layer, model_.spec));
      starts.push_back(start);
    }
    return starts;
  }

  bool measured(size_t position) const {
    return std::binary_search(metric_.positions().begin(), metric_.positions().end(), position);
  }

  Status run_base(SequenceId id) {
    std::vector<Row> rows;
    for (size_t at = 0; at < ids_.size(); ++at)
      rows.push_back({stored_.tokens[at], id, static_cast<uint32_t>(at), measured(at)});
    base_parts_.resize(ids_.size());
    PHIDIAS_CHECK_OK(stepper_.step(rows, [&](size_t row, std::span<const float> logits) {
      base_parts_[row] = metric_.part(static_cast<uint32_t>(row), logits);
      result_.base += base_parts_[row];
    }));
    result_.layer_rows += uint64_t{model_.spec.layers} * rows.size();
    return {};
  }

  // Variations that begin at one layer; in two halves where the cache has no room for all.
  Status run_together(SequenceId base, std::span<const size_t> group,
                      const std::vector<Start>& starts) {
    Status done = try_together(base, group, starts);
    if (done.ok() || done.error().code != Code::kCapacityExceeded || group.size() == 1) return done;
    const size_t half = group.size() / 2;
    PHIDIAS_CHECK_OK(run_together(base, group.first(half), starts));
    return run_together(base, group.subspan(half), starts);
  }

  Status try_together(SequenceId base, std::span<const size_t> group,
                      const std::vector<Start>& starts) {
    const size_t layer = starts[group.front()].layer;
    const size_t width = model_.spec.width;
    std::vector<std::unique_ptr<SequenceTrace>> taps;  // outlive the sequences
    std::vector<TappedSequence> sequences;
    std::vector<Row> rows;
    std::vector<size_t> owners;
    std::vector<const float*> streams;
    for (const size_t number : group) {
      PHIDIAS_TRY(auto compiled, compile(variations_[number]));
      taps.push_back(std::make_unique<SequenceTrace>(std::move(compiled)));
      const std::vector<TokenId> tokens = tokens_of(*taps.back());
      taps.back()->follow(std::span(tokens).first(starts[number].position));
      PHIDIAS_TRY(const SequenceId id,
                  stepper_.fork(base, static_cast<uint32_t>(starts[number].position)));
      sequences.emplace_back(stepper_, id, taps.back().get());
      for (size_t at = starts[number].position; at < ids_.size(); ++at) {
        rows.push_back({tokens[at], id, static_cast<uint32_t>(at), measured(at)});
        owners.push_back(number);
        if (layer > 0) streams.push_back(stored_.streams[layer].data() + at * width);
      }
    }
    for (const size_t number : group) {
      result_.metric[number] = std::accumulate(
          base_parts_.begin(),
          base_parts_.begin() + static_cast<ptrdiff_t>(starts[number].position), 0.0);
    }
    PHIDIAS_CHECK_OK(stepper_.step(rows,
                                   [&](size_t row, std::span<const float> logits) {
                                     result_.metric[owners[row]] +=
                                         metric_.part(rows[row].position, logits);
                                   },
                                   {.first = layer, .streams = streams}));
    result_.layer_rows += rows.size() * uint64_t{model_.spec.layers - layer};
    return {};
  }

  Stepper& stepper_;
  const Model::Impl& model_;
  const std::vector<TokenId>& ids_;
  std::span<const Edits> variations_;
  const VariationOptions& options_;
  SequenceOptions sequence_options_;
  LogitMetric metric_;
  StoredRun stored_;
  std::vector<double> base_parts_;  // by position
  Variations result_;
};

}  // namespace

Result<Variations> run_variations(Engine& engine, const std::vector<TokenId>& ids,
                                  std::span<const Edits> variations, const Metric& metric,
                                  const VariationOptions& options) {
  VariationOptions all = options;
  all.edits = engine.edits_in_force();
  all.edits += options.edits;
  return VariedRun(engine, ids, variations, all).run(metric);
}

}  // namespace phidias
