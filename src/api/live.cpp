#include "phidias/live.h"

#include <algorithm>

#include "api/model_impl.h"
#include "api/tapped_sequence.h"
#include "base/try.h"
#include "trace/sequence_trace.h"
#include "trace/value_table.h"

namespace phidias {
namespace {

// Where in a pass a value is met: larger is later.
std::pair<size_t, size_t> moment_of(ValueId id, size_t layer, size_t layers) {
  const Site site = source_of(id).site;
  const bool at_end = on_model(id) && site > Site::kLayerInput;
  return {at_end ? layers : layer, static_cast<size_t>(site)};
}

// Calls copy(entry of the view, entry of the buffer) for all entries; the view's rows begin at
// `position` of the buffer's.
template <typename Copy>
void each_entry(const View& view, View buffer, size_t position, Copy&& copy) {
  const auto axes = axes_of(view.layout).subspan(1);
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a] == "seq" || axes[a] == "query") buffer.data += position * buffer.strides[a];
  }
  std::vector<size_t> index(view.shape.size());
  while (true) {
    float* from = view.data;
    float* to = buffer.data;
    for (size_t a = 0; a < index.size(); ++a) {
      from += index[a] * view.strides[a];
      to += index[a] * buffer.strides[a];
    }
    copy(*from, *to);
    size_t a = index.size();
    while (a > 0 && ++index[a - 1] == view.shape[a - 1]) index[--a] = 0;
    if (a == 0) return;
  }
}

}  // namespace

struct Live::Stop {
  ValueRef value;
  std::pair<size_t, size_t> moment;
  std::vector<float> entries;
  View view;  // of `entries`
};

Live::Live(Engine& engine, std::vector<TokenId> ids, const Edits& edits)
    : engine_(&engine), ids_(std::move(ids)), edits_(edits) {}
Live::~Live() = default;
Live::Live(Live&&) noexcept = default;
Live& Live::operator=(Live&&) noexcept = default;

Edits Live::replayed() const {
  Edits edits = engine_->edits_in_force();
  edits += edits_;
  for (const auto& stop : stops_) {
    edits += on_live(stop->value, [stop](const View& view, const Where& where) {
      each_entry(view, stop->view, where.position, [](float& there, float& ours) { there = ours; });
    });
  }
  return edits;
}

Result<Traced> Live::run(std::span<const Read> reads, const Edits& edits, size_t first_layer) {
  if (ids_.empty()) return Error{Code::kInvalidArgument, "the text has no tokens", {}};
  Stepper& stepper = engine_->stepper();
  const Model::Impl& model = engine_->model().impl();
  PHIDIAS_TRY(SequenceTrace taps, SequenceTrace::compile({.reads = reads,
                                                          .edits = &edits,
                                                          .prompt = ids_,
                                                          .rows = ids_.size(),
                                                          .step_rows = stepper.options().step_rows,
                                                          .max_bytes = TraceOptions().max_bytes},
                                                         {&model.spec, &model.weights,
                                                          &stepper.rope(), stepper.options().kv}));
  PHIDIAS_CHECK_OK(taps.allocate());
  const TappedSequence sequence(
      stepper, {.prompt_tokens = static_cast<uint32_t>(ids_.size()), .images = {}}, &taps);
  std::vector<Row> rows;
  std::vector<const float*> streams;
  for (size_t at = 0; at < ids_.size(); ++at) {
    rows.push_back({taps.fed(at, ids_[at]), sequence.id(), static_cast<uint32_t>(at), false});
    if (first_layer > 0) streams.push_back(stream_.data() + at * model.spec.width);
  }
  PHIDIAS_CHECK_OK(
      stepper.step(rows, {}, {.first = first_layer, .end = taps.end_layer(), .streams = streams}));
  return std::move(taps).take(ids_.size());
}

Result<View> Live::run_until(const ValueRef& value) {
  const ModelSpec& spec = engine_->stepper().spec();
  PHIDIAS_TRY(const auto layers, resolve_layers(value, spec));
  const std::string place = value.to_string();
  if (layers.size() != 1 || value.selection != Selection() ||
      info_of(value.id).layout == Layout::kTokens) {
    return Error{Code::kInvalidArgument,
                 "a run stops at the whole of one value of one layer",
                 {{}, {}, place}};
  }
  auto stop = std::make_shared<Stop>();
  stop->value = value;
  stop->moment = moment_of(value.id, layers.front(), spec.layers);
  if (!stops_.empty() && stop->moment <= stops_.back()->moment) {
    return Error{Code::kInvalidArgument,
                 "the run has gone by: it stands at " + stops_.back()->value.to_string(),
                 {{}, {}, place}};
  }
  std::vector<uint64_t> shape = shape_of(value.id, spec, ids_.size());
  View& view = stop->view;
  view.layout = info_of(value.id).layout;
  view.shape.assign(shape.begin() + 1, shape.end());
  view.strides.resize(view.shape.size());
  size_t stride = 1;
  for (size_t a = view.shape.size(); a-- > 0;) {
    view.strides[a] = stride;
    stride *= view.shape[a];
  }
  stop->entries.resize(stride, 0.0F);
  view.data = stop->entries.data();

  Edits edits = replayed();
  edits += on_live(value, [stop](const View& there, const Where& where) {
    each_entry(there, stop->view, where.position, [](float& live, float& ours) { ours = live; });
  });
  // What enters the layer that the run stops in (or the first of skipped ones), to go on from
  // there.
  PHIDIAS_TRY(const size_t layer, begin_of_skips(edits, stop->moment.first, spec));
  std::vector<Read> reads(1);
  if (layer == spec.layers) {
    reads.front().value = kValues.layers[-1].layer_output.ref();
    // Values from the final norm on are computed for whom they are asked.
    reads.emplace_back().value = kValues.logits.channels({0}).ref();
  } else {
    reads.front().value = kValues.layers[static_cast<int32_t>(layer)].layer_input.ref();
    reads.front().moment = Read::Moment::kBefore;
  }
  // At the end itself nothing of the layers is run any more.
  if (layer_ == spec.layers) reads.erase(reads.begin());
  PHIDIAS_TRY(Traced traced, run(reads, edits, layer_));
  if (layer_ < spec.layers) {
    stream_ = std::move(traced.entries.front().tensor.floats);
    layer_ = layer;
  }
  stops_.push_back(std::move(stop));
  return stops_.back()->view;
}

Result<Traced> Live::finish(std::vector<Read> reads) {
  const ModelSpec& spec = engine_->stepper().spec();
  size_t first = layer_;
  for (const Read& read : reads) {
    PHIDIAS_TRY(const auto layers, resolve_layers(read.value, spec));
    const size_t layer = moment_of(read.value.id, layers.front(), spec.layers).first;
    if (source_of(read.value.id).extract != Extract::kPass) first = layer < first ? 0 : first;
  }
  return run(reads, replayed(), first);
}

}  // namespace phidias
