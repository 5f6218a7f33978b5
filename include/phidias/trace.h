// One run of a text with some of its named values kept, some of them changed.
//
//   Trace trace(engine, ids);
//   auto pattern = trace.read(kValues.layers[10].self_attn.attention_probabilities.head(7));
//   auto stream = trace.read(kValues.layers.all().layer_output);
//   trace.edit(kValues.layers[3].self_attn.attention_head_outputs.head(7) = 0.0F);
//   Result<Traced> traced = trace.run();
//   const Tensor& p = (*traced)[pattern];
//
// The unit is (sequence, absolute position): a row is reported once, in its place, however the
// prompt was cut and whatever ran beside it. Reading changes no bit of the output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/edits.h"
#include "phidias/engine.h"
#include "phidias/metric.h"
#include "phidias/status.h"
#include "phidias/tensors.h"
#include "phidias/values.h"

namespace phidias {

class RunTaps;
class SequenceTrace;

// What is to be kept. With several layers, one tensor for each.
struct Read {
  // After or before the value's edits; or the gradient of the trace's metric with respect to the
  // value as it is after them, in place of the value.
  enum class Moment : uint8_t { kAfter, kBefore, kGradient };
  ValueRef value;
  Moment moment = Moment::kAfter;
};

// A path as parse_value() takes it, or `all`: the 25 standard values of every layer, qkv_output and
// gate_up_output. Values that a model lacks are left out of `all`.
Result<std::vector<Read>> parse_read(std::string_view path, const Model& model);
// The same for gradients; `all` leaves out what has none of its own: integers, and what is derived.
Result<std::vector<Read>> parse_gradient(std::string_view path, const Model& model);

// Names a read's tensors in what a run returns.
template <Layout kLayout>
struct Saved {
  size_t read = 0;  // index, in order of the reads
};

struct EditReport {
  size_t rows = 0;  // positions that the edit touched, each counted once
};

// Owns its memory.
class Traced {
 public:
  struct Entry {
    size_t read;       // which read asked for it
    std::string name;  // "layers.3.layer_output"; of a gradient "grad.layers.3.layer_output"
    size_t layer;
    Tensor tensor;  // in the layout of the value, with a leading batch axis of 1
  };
  std::vector<Entry> entries;     // by read, then by layer
  std::vector<EditReport> edits;  // of each edit in the list
  std::vector<TokenId> tokens;    // generated
  size_t all_hidden = 0;  // rows of scores (layer, head, query) whose every key edits have hidden:
                          // their probabilities and outputs are 0
  uint32_t epochs = 1;    // 2: the sequence was run again at LongRoPE's switch
  double metric = 0;      // of a trace with gradients: the metric's value in this run

  // The tensor of a read of one layer, or its `layer`-th (counted among those it has).
  template <Layout kLayout>
  const Tensor& operator[](Saved<kLayout> saved) const {
    return of(saved.read, 0);
  }
  const Tensor& of(size_t read, size_t index = 0) const;
  // Null where no read has that name.
  const Tensor* find(std::string_view name) const;
};

// What a run would take, without running it.
struct TracePlan {
  struct Entry {
    std::string name;
    std::vector<uint64_t> shape;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  std::vector<size_t> explicit_layers;  // whose attention leaves the fast path for this request
};

struct TraceOptions {
  uint32_t generate = 0;  // then so many greedy tokens, end tokens not obeyed
  uint32_t chunk = 0;     // feed the prompt in chunks; 0: at once. Changes no bit
  RopeSwitch rope_switch = RopeSwitch::kReprefill;
  std::vector<ImageHandle> images = {};    // the id -n is a token of the n-th
  uint64_t max_bytes = uint64_t{8} << 30;  // of what is kept; more is refused with the figure
};

struct GradientFactor {
  ValueRef value;
  float factor;
};

// One thread at a time, and nothing else may use the engine while run() runs.
class Trace {
 public:
  Trace(Engine& engine, std::vector<TokenId> ids, TraceOptions options = {});
  // Encoded by the model's tokenizer; that there is none is told by run().
  Trace(Engine& engine, std::string_view text, TraceOptions options = {});

  template <Layout kLayout>
  Saved<kLayout> read(const Value<kLayout>& value, Read::Moment moment = Read::Moment::kAfter) {
    return {read(Read{value.ref(), moment})};
  }
  size_t read(Read read);
  // The gradient of the metric with respect to a value, in the value's layout. At layer_input,
  // layer_mid and layer_output it is that of the stream; at probabilities it is given at hidden
  // entries too, at scores it is 0 there. The weights are frozen and may have any number format. In
  // exact numerics it is the gradient of the run itself; in fast numerics that of the exact network
  // at the run's streams. Gradients pass edits, but no functions and none with scope "call"; they
  // exclude TraceOptions::generate.
  template <Layout kLayout>
  Saved<kLayout> grad(const Value<kLayout>& value) {
    return {read(Read{value.ref(), Read::Moment::kGradient})};
  }
  void metric(Metric metric) { metric_ = std::move(metric); }
  // On the way back the gradient at a value (of whole vectors, at its positions) is multiplied,
  // after it was read: 0 cuts what flows through it.
  void scale_gradient(const ValueRef& value, float factor) {
    gradient_scales_.push_back({value, factor});
  }
  void edit(Edit edit);
  void edit(const Edits& edits);
  template <Layout kLayout>
  void edit(const Value<kLayout>& value, EditCallback callback) {
    edit(on_live(value.ref(), std::move(callback)));
  }

  // Errors: kInvalidArgument (an edit or read that does not fit this model or these tokens; the
  // place names it), kUnsupported (a value that this model has not), kCapacityExceeded (max_bytes,
  // with the exact figure).
  Result<TracePlan> plan() const;
  // Without generation, and where no logits are read, layers behind the last one that is read or
  // edited are not computed. Errors: those of plan() and of Engine::step; kCancelled.
  Result<Traced> run() const;

  const std::vector<TokenId>& ids() const { return ids_; }

 private:
  struct Program;

  Result<Traced> run_with_gradients(Program& program) const;
  Result<Traced> run_steps(SequenceTrace& taps, RunTaps* attached) const;

  Engine* engine_;
  std::vector<TokenId> ids_;
  std::optional<Error> no_ids_;
  TraceOptions options_;
  std::vector<Read> reads_;
  Edits edits_;
  Metric metric_;
  std::vector<GradientFactor> gradient_scales_;
};

// Whether a model has a value, told without running it.
struct Support {
  ValueInfo value;
  std::string name;                    // "layers.self_attn.attention_queries"
  std::vector<std::string> extents;    // of each axis: "1", "seq", "3072"
  std::optional<std::string> missing;  // why it is not there
};
std::vector<Support> support(const Model& model);
// Of a checkpoint whose weights are not read.
Result<std::vector<Support>> support(const std::filesystem::path& path);
// The tree of native modules with every value, its layout and meaning, and the sizes.
std::string describe(const Model& model);
Result<std::string> describe(const std::filesystem::path& path);

}  // namespace phidias
