#include "phidias/trace.h"

#include <algorithm>

#include "api/engine_impl.h"
#include "api/model_impl.h"
#include "base/try.h"
#include "trace/sequence_trace.h"

namespace phidias {
namespace {

// Values of `all` that are no standard ones.
bool joins_all(const ValueInfo& info) {
  return info.standard || info.id == ValueId::kQkvOutput || info.id == ValueId::kGateUpOutput;
}

// Open for the time of a run, and looked into.
class TappedSequence {
 public:
  TappedSequence(Stepper& stepper, const SequenceOptions& options, RunTaps* taps)
      : stepper_(stepper), id_(stepper.open(options)) {
    stepper_.attach(id_, taps);
  }
  ~TappedSequence() { stepper_.close(id_); }
  TappedSequence(const TappedSequence&) = delete;
  TappedSequence& operator=(const TappedSequence&) = delete;
  SequenceId id() const { return id_; }

 private:
  Stepper& stepper_;
  SequenceId id_;
};

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
    : engine_(&engine), ids_(std::move(ids)), options_(options) {
  if (ids_.empty()) no_ids_ = Error{Code::kInvalidArgument, "the text has no tokens", {}};
}

Trace::Trace(Engine& engine, std::string_view text, TraceOptions options)
    : engine_(&engine), options_(options) {
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
  SequenceTrace taps;

  static Result<std::unique_ptr<Program>> compile(const Trace& trace) {
    if (trace.no_ids_) return *trace.no_ids_;
    Stepper& stepper = trace.engine_->stepper();
    const Model::Impl& model = trace.engine_->model().impl();
    auto program = std::unique_ptr<Program>(new Program{RopeTable(model.spec.rope), {}});
    const size_t rows =
        trace.ids_.size() + (trace.options_.generate > 0 ? trace.options_.generate - 1 : 0);
    if (rows > stepper.options().context) {
      return Error{Code::kCapacityExceeded,
                   "the run has " + std::to_string(rows) +
                       " positions, but the context in force is " +
                       std::to_string(stepper.options().context),
                   {}};
    }
    const CollectorContext context{&model.spec, &model.weights, &program->rope,
                                   stepper.options().kv};
    PHIDIAS_TRY(program->taps, SequenceTrace::compile({.reads = trace.reads_,
                                                       .edits = &trace.edits_,
                                                       .prompt = trace.ids_,
                                                       .rows = rows,
                                                       .step_rows = stepper.options().step_rows,
                                                       .max_bytes = trace.options_.max_bytes},
                                                      context));
    return program;
  }
};

Result<TracePlan> Trace::plan() const {
  PHIDIAS_TRY(const auto program, Program::compile(*this));
  return program->taps.plan();
}

Result<Traced> Trace::run() const {
  PHIDIAS_TRY(auto program, Program::compile(*this));
  SequenceTrace& taps = program->taps;
  PHIDIAS_CHECK_OK(taps.allocate());
  Stepper& stepper = engine_->stepper();
  const TappedSequence sequence(
      stepper,
      {.rope_switch = options_.rope_switch, .prompt_tokens = static_cast<uint32_t>(ids_.size())},
      taps.idle() ? nullptr : &taps);
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
  const size_t chunk = options_.chunk == 0 ? ids_.size() : options_.chunk;
  std::vector<Row> rows;
  for (uint32_t at = 0; at < ids_.size();) {
    rows.clear();
    for (; at < ids_.size() && rows.size() < chunk; ++at) {
      const bool last = at + 1 == ids_.size();
      rows.push_back({taps.fed(at, ids_[at]), sequence.id(), at, last && generate > 0});
    }
    PHIDIAS_CHECK_OK(stepper.step(rows, choose));
  }
  while (failed.ok() && tokens.size() < generate) {
    const auto position = static_cast<uint32_t>(ids_.size() + tokens.size() - 1);
    const Row row{taps.fed(position, tokens.back()), sequence.id(), position, true};
    PHIDIAS_CHECK_OK(stepper.step(std::span(&row, 1), choose));
  }
  PHIDIAS_CHECK_OK(failed);
  Traced traced = std::move(taps).take();
  traced.tokens = std::move(tokens);
  return traced;
}

}  // namespace phidias
