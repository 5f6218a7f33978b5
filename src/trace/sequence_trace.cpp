#include "trace/sequence_trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "base/try.h"
#include "kernels/attention_explicit.h"

namespace phidias {
namespace {

Error is_of_an_image(const std::string& place) {
  return {Code::kInvalidArgument,
          "is computed when an image is encoded, before this run: give it to trace_image(), or to "
          "`phidias trace --image`",
          {{}, {}, place}};
}

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

Result<SequenceTrace> SequenceTrace::compile(const TraceRequest& request,
                                             const CollectorContext& context) {
  const RequestShape shape{context.spec, request.prompt, request.rows, request.step_rows};
  SequenceTrace trace;
  trace.layer_count_ = context.spec->layers;
  trace.layers_.resize(trace.layer_count_);
  trace.hidden_.resize(request.rows);
  trace.outputs_.resize(request.rows);
  trace.edit_count_ = request.edits->size();
  trace.rows_touched_.resize(trace.edit_count_);
  trace.idle_ = request.reads.empty() && request.edits->empty();
  PHIDIAS_CHECK_OK(trace.add_edits(request, shape));
  PHIDIAS_CHECK_OK(trace.add_reads(request, shape, context));
  return trace;
}

SequenceTrace::Work& SequenceTrace::work_at(ValueId id, size_t layer) {
  const Site site = source_of(id).site;
  // The final norm's scale is of what leaves the last layer.
  if (id == ValueId::kFinalNormScale) layer = layer_count_ - 1;
  layers_[layer].sites |= mask_of(site);
  return layers_[layer].work[static_cast<size_t>(site)];
}

Status SequenceTrace::add_edits(const TraceRequest& request, const RequestShape& shape) {
  std::vector<size_t> order(request.edits->size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return (*request.edits)[a].order < (*request.edits)[b].order;
  });
  for (const size_t number : order) {
    const Edit& edit = (*request.edits)[number];
    if (edit.op == EditOp::kSkip) {
      PHIDIAS_CHECK_OK(add_skip(edit, number, shape));
      continue;
    }
    if (of_images(edit.value.id)) {
      return is_of_an_image("edit " + std::to_string(number + 1) + ", " + edit.value.to_string());
    }
    PHIDIAS_TRY(const auto layers, resolve_layers(edit.value, *shape.spec));
    for (const size_t layer : layers) {
      PHIDIAS_TRY(auto program, EditProgram::compile(edit, number, layer, shape));
      const size_t index = edits_.size();
      if (program.id() == ValueId::kAttentionMask) {
        hide_masked(shape, program);
      } else if (program.id() == ValueId::kInputIds) {
        token_edits_.push_back(index);
      } else if (edit.scope == EditScope::kCall) {
        const auto& others = layers_[layer].call_edits;
        if (!others.empty() && edits_[others.front()].edit().queries != edit.queries) {
          return Error{Code::kUnsupported,
                       "edits with scope \"call\" of one layer must name the same queries",
                       {{}, {}, "edit " + std::to_string(number + 1)}};
        }
        layers_[layer].call_edits.push_back(index);
        layers_[layer].sites |= mask_of(Site::kAttentionScores);
        layers_[layer].attention.edits = true;
        layers_[layer].attention.call_edits = true;
      } else {
        work_at(program.id(), layer).edits.push_back(index);
        if (info_of(program.id()).layout == Layout::kPattern) {
          layers_[layer].attention.edits = true;
          layers_[layer].attention.lifts |= edit.lift;
        }
      }
      edits_.push_back(std::move(program));
    }
  }
  return {};
}

Status SequenceTrace::add_skip(const Edit& edit, size_t number, const RequestShape& shape) {
  PHIDIAS_TRY(const SkipRange range, resolve_skip(edit, number, *shape.spec));
  Skip skip{range.from, range.to, {}, number, {}};
  PHIDIAS_TRY(skip.at, PositionSet::resolve(edit.value.selection.at, shape.prompt, shape.rows,
                                            "edit " + std::to_string(number + 1) + ", skip"));
  layers_[skip.from].sites |= mask_of(Site::kLayerInput);
  layers_[skip.to].sites |= mask_of(Site::kLayerOutput);
  skips_.push_back(std::move(skip));
  return {};
}

// A mask is known before anything runs: it becomes hidden keys in every layer.
void SequenceTrace::hide_masked(const RequestShape& shape, EditProgram& program) {
  for (size_t position = 0; position < shape.rows; ++position) {
    float mask = hidden_[position] ? 0 : 1;
    program.apply(SiteRows{&mask, 1, 1, 1, static_cast<uint32_t>(position)},
                  {0, shape.prompt, &cancelled_});
    hidden_[position] = mask == 0;
  }
  any_hidden_ = std::find(hidden_.begin(), hidden_.end(), true) != hidden_.end();
  for (Layer& layer : layers_) {
    layer.sites |= mask_of(Site::kAttentionScores);
    layer.attention.edits = true;
  }
}

Status SequenceTrace::add_reads(const TraceRequest& request, const RequestShape& shape,
                                const CollectorContext& context) {
  uint64_t bytes = 0;
  for (size_t number = 0; number < request.reads.size(); ++number) {
    const Read& read = request.reads[number];
    if (read.moment == Read::Moment::kGradient) continue;
    if (of_images(read.value.id)) return is_of_an_image(read.value.to_string());
    PHIDIAS_TRY(const auto layers, resolve_layers(read.value, *shape.spec));
    for (const size_t layer : layers) {
      PHIDIAS_TRY(auto collector, Collector::compile(read, number, layer, shape, context));
      bytes += collector.bytes();
      const size_t index = reads_.size();
      const ValueSource& source = source_of(collector.id());
      if (source.extract == Extract::kPass) {
        pass_reads_.push_back(index);
      } else {
        Work& work = work_at(collector.id(), layer);
        (read.moment == Read::Moment::kBefore ? work.before : work.after).push_back(index);
      }
      if (source.site == Site::kFinalNormOutput || source.site == Site::kLmHeadOutput ||
          source.site == Site::kLogits) {
        for (size_t position = 0; position < shape.rows; ++position)
          if (collector.wants(position)) outputs_[position] = true;
      }
      reads_.push_back(std::move(collector));
    }
  }
  if (bytes > request.max_bytes) {
    return Error{Code::kCapacityExceeded,
                 "the values that are read take " + std::to_string(bytes) +
                     " bytes, more than the " + std::to_string(request.max_bytes) +
                     " that are allowed; read fewer layers, positions or heads",
                 {{}, {}, "read"}};
  }
  return {};
}

void SequenceTrace::record(std::span<EditProgram> derivatives) {
  for (EditProgram& derivative : derivatives) {
    if (derivative.record_bytes() == 0) continue;
    const auto same = [&](const EditProgram& edit) {
      return edit.number() == derivative.number() && edit.layer() == derivative.layer();
    };
    const auto edit = std::find_if(edits_.begin(), edits_.end(), same);
    PHIDIAS_ASSERT(edit != edits_.end());
    const auto record = derivative.make_record();
    edit->record(record);
    derivative.record(record);
  }
}

size_t SequenceTrace::first_edit(Numerics numerics) const {
  size_t first = outputs_.size();
  for (const EditProgram& edit : edits_) first = std::min(first, edit.first_position());
  for (const Skip& skip : skips_) first = std::min(first, skip.at.first());
  for (const Layer& layer : layers_) {
    // The explicit path rounds otherwise than the fast one, for every query of the layer.
    const bool moved = numerics == Numerics::kFast && layer.attention.edits;
    if (moved || layer.attention.lifts) first = 0;
  }
  return first;
}

size_t SequenceTrace::first_position(Numerics numerics) const {
  size_t first = first_edit(numerics);
  for (const Collector& read : reads_) first = std::min(first, read.first_position());
  return first;
}

size_t SequenceTrace::end_layer() const {
  if (std::find(outputs_.begin(), outputs_.end(), true) != outputs_.end()) return layer_count_;
  size_t end = layer_count_;
  while (end > 0 && (layers_[end - 1].sites & ~kModelSites) == 0) --end;
  return end;
}

TracePlan SequenceTrace::plan() const {
  TracePlan plan;
  for (const Collector& read : reads_) {
    plan.entries.push_back({value_name(read.id(), read.layer()), read.shape(), read.bytes()});
    plan.bytes += read.bytes();
  }
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layers_[layer].attention.edits) plan.explicit_layers.push_back(layer);
  }
  return plan;
}

Status SequenceTrace::allocate() {
  try {
    for (Collector& read : reads_) read.allocate();
  } catch (const std::bad_alloc&) {
    const TracePlan whole = plan();
    std::string largest = "none";
    uint64_t most = 0;
    for (const TracePlan::Entry& entry : whole.entries) {
      if (entry.bytes > most) largest = entry.name + " " + shape_text(entry.shape);
      most = std::max(most, entry.bytes);
    }
    return Error{Code::kOutOfMemory,
                 "no memory for the values that are read: " + std::to_string(whole.bytes) +
                     " bytes, of which " + largest + " is the largest",
                 {{}, {}, "read"}};
  }
  return {};
}

TokenId SequenceTrace::fed(size_t position, TokenId token) {
  if (token_edits_.empty()) return token;
  auto value = static_cast<float>(token);  // exact: ids are below 2^24
  for (const size_t edit : token_edits_) {
    edits_[edit].apply(SiteRows{&value, 1, 1, 1, static_cast<uint32_t>(position)},
                       {epoch_, tokens_, &cancelled_});
  }
  // What is no id is refused like one outside of the vocabulary.
  constexpr TokenId kNoToken = std::numeric_limits<TokenId>::max();
  if (!(std::abs(value) < 16777216.0F) || value != std::nearbyint(value)) return kNoToken;
  return static_cast<TokenId>(value);
}

void SequenceTrace::begin(const BatchRun& run) {
  if (run.position == 0 && !tokens_.empty()) ++epoch_;
  tokens_.resize(std::max<size_t>(tokens_.size(), run.position + run.tokens.size()));
  std::copy(run.tokens.begin(), run.tokens.end(),
            tokens_.begin() + static_cast<ptrdiff_t>(run.position));
  for (const size_t read : pass_reads_) reads_[read].collect(run, hidden_);
}

template <typename Rows>
void SequenceTrace::run(Work& work, const Rows& rows) {
  const std::span<const TokenId> tokens = std::span<const TokenId>(tokens_).first(
      std::min<size_t>(tokens_.size(), rows.position + rows.rows));
  for (const size_t read : work.before) reads_[read].collect(rows);
  for (const size_t edit : work.edits) edits_[edit].apply(rows, {epoch_, tokens, &cancelled_});
  for (const size_t read : work.after) reads_[read].collect(rows);
}

void SequenceTrace::visit(Site site, size_t layer, const SiteRows& rows) {
  if (site == Site::kLayerOutput) {
    for (Skip& skip : skips_) {
      // A layer that is run again by itself, for a gradient, hands nothing on.
      if (skip.to != layer || skip.stream.size() != rows.rows * rows.width) continue;
      for (size_t r = 0; r < rows.rows; ++r) {
        if (skip.at.index(rows.position + r) == PositionSet::kNone) continue;
        std::memcpy(rows.data + r * rows.stride, skip.stream.data() + r * rows.width,
                    rows.width * sizeof(float));
      }
    }
  }
  run(layers_[layer].work[static_cast<size_t>(site)], rows);
  if (site == Site::kLayerInput) {  // behind the edits: what enters is what leaves
    for (Skip& skip : skips_) {
      if (skip.from != layer) continue;
      skip.stream.clear();
      for (size_t r = 0; r < rows.rows; ++r) {
        const float* row = rows.data + r * rows.stride;
        skip.stream.insert(skip.stream.end(), row, row + rows.width);
        if (epoch_ == 0 && skip.at.index(rows.position + r) != PositionSet::kNone)
          ++rows_touched_[skip.number];
      }
    }
  }
}

void SequenceTrace::hide_keys(const SitePattern& pattern) const {
  if (!any_hidden_) return;
  for (size_t i = 0; i < pattern.rows * pattern.heads; ++i) {
    for (size_t key = 0; key < pattern.keys; ++key) {
      if (hidden_[key]) pattern.data[i * pattern.keys + key] = kHiddenScore;
    }
  }
}

void SequenceTrace::visit_pattern(Site site, size_t layer, const SitePattern& pattern) {
  Layer& own = layers_[layer];
  if (site == Site::kAttentionScores) hide_keys(pattern);
  run(own.work[static_cast<size_t>(site)], pattern);
  if (site != Site::kAttentionScores || !own.attention.edits) return;
  for (const size_t edit : own.call_edits) {
    for (size_t r = 0; r < pattern.rows; ++r) {
      if (!edits_[edit].seen_by(pattern.position + r)) continue;
      for (size_t key = 0; key <= pattern.position + r; ++key)
        if (edits_[edit].selects(key)) edits_[edit].touch(key);
    }
  }
  for (size_t i = 0; epoch_ == 0 && i < pattern.rows * pattern.heads; ++i) {
    const float* row = pattern.data + i * pattern.keys;
    if (std::all_of(row, row + pattern.keys, [](float x) { return x == kHiddenScore; }))
      ++all_hidden_;
  }
}

void SequenceTrace::edit_gathered(Site site, size_t layer, size_t head,
                                  const SiteRows& rows) const {
  for (const size_t edit : layers_[layer].call_edits) {
    if (source_of(edits_[edit].id()).site == site) edits_[edit].apply_gathered(head, rows);
  }
}

bool SequenceTrace::sees_call_edits(size_t layer, uint32_t position) const {
  const std::vector<size_t>& all = layers_[layer].call_edits;
  return std::any_of(all.begin(), all.end(),
                     [&](size_t edit) { return edits_[edit].seen_by(position); });
}

Traced SequenceTrace::take(size_t rows) && {
  Traced traced;
  for (Collector& read : reads_) {
    std::string name = value_name(read.id(), read.layer());
    traced.entries.push_back(
        {read.read(), std::move(name), read.layer(), std::move(read).take(rows)});
  }
  traced.edits.resize(edit_count_);
  for (size_t i = 0; i < edit_count_; ++i) traced.edits[i].rows = rows_touched_[i];
  for (const EditProgram& edit : edits_) {
    size_t& touched = traced.edits[edit.number()].rows;
    touched = std::max(touched, edit.rows_touched());
  }
  traced.all_hidden = all_hidden_;
  traced.epochs = epoch_ + 1;
  return traced;
}

}  // namespace phidias
