#include "phidias/trace.h"

#include <algorithm>

#include "api/engine_impl.h"
#include "api/model_impl.h"
#include "api/tapped_sequence.h"
#include "base/try.h"
#include "gradient/objective_taps.h"
#include "trace/gradient_trace.h"
#include "trace/sequence_trace.h"

namespace phidias {
namespace {

// Values of `all` that are no standard ones.
bool joins_all(const ValueInfo& info) {
  return info.standard || info.id == ValueId::kQkvOutput || info.id == ValueId::kGateUpOutput;
}

Error cancelled() { return {Code::kCancelled, "a callback has ended the run", {}}; }

}  // namespace

Result<std::vector<Read>> parse_read(std::string_view path, const Model& model) {
  std::vector<Read> reads;
  if (path == "all") {
    for (const ValueInfo& info : value_infos()) {
      if (!joins_all(info) || missing_value(info.id, model.impl().spec)) continue;
      reads.push_back({ValueRef{info.id, {false, 0}, {}}});
    }
    return reads;
  }
  PHIDIAS_TRY(ValueRef value, parse_value(path));
  reads.push_back({std::move(value)});
  return reads;
}

Result<std::vector<Read>> parse_gradient(std::string_view path, const Model& model) {
  PHIDIAS_TRY(auto reads, parse_read(path, model));
  if (path == "all") {
    std::erase_if(reads, [](const Read& read) { return !has_gradient(read.value.id); });
  }
  for (Read& read : reads) read.moment = Read::Moment::kGradient;
  return reads;
}

const Tensor& Traced::of(size_t read, size_t index) const {
  for (const Entry& entry : entries) {
    if (entry.read == read && index-- == 0) return entry.tensor;
  }
  PHIDIAS_ASSERT(false);  // the key belongs to another trace
  return entries.front().tensor;
}

const Tensor* Traced::find(std::string_view name) const {
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return at == entries.end() ? nullptr : &at->tensor;
}

Trace::Trace(Engine& engine, std::vector<TokenId> ids, TraceOptions options)
    : engine_(&engine), ids_(std::move(ids)), options_(std::move(options)) {
  if (ids_.empty()) no_ids_ = Error{Code::kInvalidArgument, "the text has no tokens", {}};
}

Trace::Trace(Engine& engine, std::string_view text, TraceOptions options)
    : engine_(&engine), options_(std::move(options)) {
  if (const auto tokenizer = engine.model().tokenizer()) {
    ids_ = tokenizer->encode(text);
    if (ids_.empty()) no_ids_ = Error{Code::kInvalidArgument, "the text has no tokens", {}};
  } else {
    no_ids_ = Error{Code::kNotFound,
                    "the model has no tokenizer to encode text with; give ids",
                    {engine.model().info().path, {}, {}}};
  }
}

size_t Trace::read(Read read) {
  reads_.push_back(std::move(read));
  return reads_.size() - 1;
}
void Trace::edit(Edit edit) { edits_ += std::move(edit); }
void Trace::edit(const Edits& edits) { edits_ += edits; }

// What run() and plan() have in common: the run's size and its program.
struct Trace::Program {
  RopeTable rope;
  Edits edits;  // those in force, then the trace's
  SequenceTrace taps;
  std::optional<GradientTrace> gradients;

  static Result<std::unique_ptr<Program>> compile(const Trace& trace) {
    if (trace.no_ids_) return *trace.no_ids_;
    Stepper& stepper = trace.engine_->stepper();
    const Model::Impl& model = trace.engine_->model().impl();
    auto program = std::unique_ptr<Program>(new Program{RopeTable(model.spec.rope), {}, {}, {}});
    const size_t rows =
        trace.ids_.size() + (trace.options_.generate > 0 ? trace.options_.generate - 1 : 0);
    if (rows > stepper.options().context) {
      return Error{Code::kCapacityExceeded,
                   "the run has " + std::to_string(rows) +
                       " positions, but the context in force is " +
                       std::to_string(stepper.options().context),
                   {}};
    }
    program->edits = trace.engine_->edits_in_force();
    program->edits += trace.edits_;
    const CollectorContext context{&model.spec, &model.weights, &program->rope,
                                   stepper.options().kv};
    const TraceRequest request{.reads = trace.reads_,
                               .edits = &program->edits,
                               .prompt = trace.ids_,
                               .rows = rows,
                               .step_rows = stepper.options().step_rows,
                               .max_bytes = trace.options_.max_bytes};
    PHIDIAS_TRY(program->taps, SequenceTrace::compile(request, context));
    if (std::none_of(trace.reads_.begin(), trace.reads_.end(),
                     [](const Read& read) { return read.moment == Read::Moment::kGradient; })) {
      return program;
    }
    if (trace.options_.generate > 0) {
      return Error{Code::kInvalidArgument,
                   "gradients are of one pass over the given tokens; leave out generation",
                   {{}, {}, "grad"}};
    }
    PHIDIAS_TRY(program->gradients,
                GradientTrace::compile(request, trace.metric_, trace.gradient_scales_, context));
    return program;
  }
};

Result<TracePlan> Trace::plan() const {
  PHIDIAS_TRY(const auto program, Program::compile(*this));
  TracePlan plan = program->taps.plan();
  if (program->gradients) program->gradients->add_to(plan);
  return plan;
}

Result<Traced> Trace::run() const {
  PHIDIAS_TRY(auto program, Program::compile(*this));
  PHIDIAS_CHECK_OK(program->taps.allocate());
  if (!program->gradients) return run_steps(program->taps, &program->taps);
  return run_with_gradients(*program);
}

// Besides what is read, the streams are stored and the metric is taken; then all is walked back.
Result<Traced> Trace::run_with_gradients(Program& program) const {
  Stepper& stepper = engine_->stepper();
  StoredRun stored;
  for (size_t at = 0; at < ids_.size(); ++at)
    stored.tokens.push_back(program.taps.fed(at, ids_[at]));
  stored.factors = rotary_factors_for(stepper.spec().rope, options_.rope_switch, ids_.size());
  std::optional<StreamRecorder> recorder;
  ObjectiveTaps objective(program.gradients->objective(), &program.taps);
  try {
    program.gradients->follow(program.taps);
    recorder.emplace(stepper.spec(), stored, &objective);
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory,
                 "no memory for the stored streams, " +
                     std::to_string(stored_run_bytes(stepper.spec(), ids_.size())) +
                     " bytes; give fewer tokens",
                 {{}, {}, "grad"}};
  }
  PHIDIAS_TRY(Traced traced, run_steps(program.taps, &*recorder));
  traced.metric = objective.value();
  PHIDIAS_CHECK_OK(
      program.gradients->run(stepper.kernels(), stepper.threads(), stored, traced.entries));
  std::stable_sort(traced.entries.begin(), traced.entries.end(),
                   [](const Traced::Entry& a, const Traced::Entry& b) { return a.read < b.read; });
  return traced;
}

// `attached` looks into the steps: the trace, or what stands before it.
Result<Traced> Trace::run_steps(SequenceTrace& taps, RunTaps* attached) const {
  Stepper& stepper = engine_->stepper();
  const TappedSequence sequence(stepper,
                                {.rope_switch = options_.rope_switch,
                                 .prompt_tokens = static_cast<uint32_t>(ids_.size()),
                                 .images = options_.images},
                                taps.idle() ? nullptr : attached);
  const KernelTable& kernels = *table_by_name(engine_->options().isa);
  const uint32_t generate = options_.generate;
  std::vector<TokenId> tokens;
  Status failed;
  const auto choose = [&](size_t, std::span<const float> logits) {
    const size_t best = kernels.argmax(logits.data(), logits.size());
    if (best == logits.size())
      failed = Error{Code::kNonFinite, "the logits have a NaN", {}};
    else
      tokens.push_back(static_cast<TokenId>(best));
  };
  // Without an answer nothing behind the last value is run.
  StepLayers layers;
  if (attached == &taps && generate == 0) layers.end = taps.end_layer();
  const size_t chunk = options_.chunk == 0 ? ids_.size() : options_.chunk;
  std::vector<Row> rows;
  for (uint32_t at = 0; at < ids_.size();) {
    rows.clear();
    for (; at < ids_.size() && rows.size() < chunk; ++at) {
      const bool last = at + 1 == ids_.size();
      rows.push_back({taps.fed(at, ids_[at]), sequence.id(), at, last && generate > 0});
    }
    PHIDIAS_CHECK_OK(stepper.step(rows, choose, layers));
    if (taps.cancelled()) return cancelled();
  }
  while (failed.ok() && tokens.size() < generate) {
    const auto position = static_cast<uint32_t>(ids_.size() + tokens.size() - 1);
    const Row row{taps.fed(position, tokens.back()), sequence.id(), position, true};
    PHIDIAS_CHECK_OK(stepper.step(std::span(&row, 1), choose));
    if (taps.cancelled()) return cancelled();
  }
  PHIDIAS_CHECK_OK(failed);
  Traced traced = std::move(taps).take(stepper.length(sequence.id()));
  traced.tokens = std::move(tokens);
  return traced;
}

}  // namespace phidias
