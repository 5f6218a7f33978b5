// Sequences over one model: their tokens, cache pages and rotation, and the step that extends any
// number of them. Plan, reserve, run, commit: a step that fails leaves no sequence changed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv_cache.h"
#include "model/decoder.h"
#include "model/run_context.h"
#include "model/spec.h"
#include "model/weights.h"
#include "phidias/status.h"
#include "phidias/step.h"

namespace phidias {

struct StepperOptions {
  Numerics numerics = Numerics::kFast;
  KvType kv = KvType::kF16;
  uint32_t context = 0;       // longest sequence; not 0
  uint64_t cache_budget = 0;  // bytes of all pages
  uint32_t step_rows = 512;
  uint32_t page_positions = 64;
};

// The layers that a step runs. Above the first, each row's stream [D] as it enters that layer is
// given; the caller has it from a run of the same tokens. What a step that leaves layers out puts
// into the cache serves steps of the same layers alone.
struct StepLayers {
  size_t first = 0;
  size_t end = SIZE_MAX;                    // short of the last layer no row has an output
  std::span<const float* const> streams{};  // of each row of the step; empty where first is 0
};

// One call at a time. Spec, weights, kernels and threads must outlive it.
class Stepper {
 public:
  Stepper(const ModelSpec& spec, const ModelWeights& weights, const KernelTable& kernels,
          ParallelFor& threads, const StepperOptions& options);

  // As the functions of phidias::Engine of the same names (phidias/engine.h).
  SequenceId open(const SequenceOptions& options);
  void close(SequenceId sequence);
  // Lets `taps` look into all further steps of an open sequence, until it is detached by null. It
  // must outlive them; a fork has none.
  void attach(SequenceId sequence, RunTaps* taps) { sequences_.at(sequence).taps = taps; }
  bool is_open(SequenceId sequence) const { return sequences_.contains(sequence); }
  // New options for a sequence that goes on with another prompt; its cache is kept.
  void resume(SequenceId sequence, const SequenceOptions& options) {
    sequences_.at(sequence).options = options;
  }
  Result<SequenceId> fork(SequenceId sequence);
  // A new sequence with the first `length` tokens.
  Result<SequenceId> fork(SequenceId sequence, uint32_t length);
  uint32_t length(SequenceId sequence) const;
  std::span<const TokenId> tokens(SequenceId sequence) const;
  // The images that the sequence may show.
  std::span<const ImageHandle> images(SequenceId sequence) const {
    return sequences_.at(sequence).options.images;
  }
  Status truncate(SequenceId sequence, uint32_t length);
  Status step(std::span<const Row> rows, const LogitsSink& sink, const StepLayers& layers = {});
  // Asked before every pass, by the thread that steps; true ends the step with kCancelled. Empty:
  // nobody is asked.
  void interrupt_with(std::function<bool()> asked) { interrupted_ = std::move(asked); }
  // Likewise for work beside the passes.
  bool interrupted() const { return interrupted_ && interrupted_(); }
  // Makes an empty sequence `length` positions long without running any: its keys and values are
  // small numbers without a meaning. For measurements. Errors: as step().
  Status occupy(SequenceId sequence, uint32_t length);

  const ModelSpec& spec() const { return *spec_; }
  const StepperOptions& options() const { return options_; }
  const KernelTable& kernels() const { return *context_.kernels; }
  ParallelFor& threads() const { return *context_.threads; }
  const KvCache& cache() const { return cache_; }
  const ModelWeights& weights() const { return decoder_.weights(); }
  const RopeTable& rope() const { return decoder_.rope(); }
  RunContext& context() { return context_; }
  // How often a sequence was run again for the other factor list.
  uint64_t reprefills() const { return reprefills_; }

 private:
  struct Sequence {
    SequenceOptions options;
    RunTaps* taps = nullptr;
    std::vector<TokenId> tokens;  // one per cached position
    PageList pages;
    RotaryFactors factors = RotaryFactors::kPlain;  // that the cached keys have
  };
  // The rows of one sequence in a step.
  struct Extension {
    SequenceId id = 0;
    std::vector<TokenId> tokens;
    std::vector<const float*> given;  // for each token the row of an image, or null
    std::vector<size_t> rows;         // index into the step's rows of each token
    RotaryFactors factors = RotaryFactors::kPlain;
    PageList pages;      // reserved for the new length
    bool rerun = false;  // the cached positions first, with the new factors
  };

  Result<std::vector<Extension>> plan(std::span<const Row> rows, const StepLayers& layers) const;
  Status reserve(std::vector<Extension>& extensions);
  // These two return false where they were interrupted.
  bool run(const std::vector<Extension>& extensions, std::span<const Row> rows,
           const LogitsSink& sink, const StepLayers& layers);
  bool rerun(const Extension& extension);
  // A step has failed on its way.
  void abandon(const std::vector<Extension>& extensions);
  // For each token that the sequence holds the row of an image, or null; empty without images.
  static std::vector<const float*> given_rows(const Sequence& sequence);
  static bool tap_wants_output(const Sequence& sequence, size_t position);
  // Logits of the first `outputs` rows that the last pass kept, a few at a time.
  void compute_logits(size_t outputs,
                      const std::function<void(size_t, std::span<const float>)>& each);
  RotaryFactors factors_at(const Sequence& sequence, size_t length) const;

  const ModelSpec* spec_;
  StepperOptions options_;
  KvLayout layout_;
  KvCache cache_;
  Decoder decoder_;
  RunContext context_;
  std::unordered_map<SequenceId, Sequence> sequences_;  // after cache_: pages are returned to it
  SequenceId next_id_ = 1;
  uint64_t reprefills_ = 0;
  AlignedBuffer<float> logits_;
  std::function<bool()> interrupted_;
};

}  // namespace phidias
