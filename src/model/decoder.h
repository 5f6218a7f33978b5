// The one forward: prompts, single steps and mixtures of both are the same call.
#pragma once

#include "model/batch.h"
#include "model/rope.h"
#include "model/run_context.h"
#include "model/spec.h"
#include "model/step_state.h"
#include "model/taps.h"
#include "model/weights.h"

namespace phidias {

// From the head's output [V] to logits, in place: divided, and masked, as the specification says.
void finish_logits(const ModelSpec& spec, float* row);

// Runs batches through the blocks. Holds the buffers of one step: one decoder per engine, one call
// at a time. The spec and the weights are shared and must outlive it.
//
// Same bits: a row's result depends on its sequence's tokens alone, not on the rows beside it, on
// how a prompt was cut into steps, or on the threads.
class Decoder {
 public:
  Decoder(const ModelSpec& spec, const ModelWeights& weights, const KvLayout& layout);

  // Writes keys and values of every row into its sequence's cache, and the final norm's output of
  // the rows in batch.outputs to hidden(), in their order.
  void forward(const Batch& batch, RunContext& context);
  size_t outputs() const { return final_.rows(); }
  const float* hidden(size_t output) const { return final_.row(output); }

  // Logits [count, vocab] of outputs [first, first + count): asked for in pieces, since they are
  // large.
  void logits(size_t first, size_t count, float* out, RunContext& context);

  const ModelWeights& weights() const { return *weights_; }
  const RopeTable& rope() const { return rope_; }

  // Bytes of buffers that a step of `rows` rows needs, about.
  static size_t buffer_bytes(const ModelSpec& spec, size_t rows);

 private:
  void embed(const Batch& batch);
  // After the embeddings have been seen: image tokens have that of id 0 until then.
  void place_given_rows(const Batch& batch);
  template <class Taps>
  void run(const Batch& batch, RunContext& context, Taps taps);
  void scale_embedding(RunContext& context);
  void tap_outputs(Site site, size_t first, size_t count, float* rows) const;
  // The rest of the pass is left out: where outputs are asked for all the same, they are 0.
  void leave_outputs(const Batch& batch);
  void tap_output(Site site, size_t output, float* row, size_t width) const;

  const ModelSpec* spec_;
  const ModelWeights* weights_;
  KvLayout layout_;
  RopeTable rope_;
  StepState state_;
  Activations final_;  // [outputs, D]
  struct TappedOutput {
    RunTaps* taps;
    uint32_t position;
  };
  std::vector<TappedOutput> tapped_outputs_;  // [outputs], or empty where nothing is tapped
  Activations final_piece_;                   // [count, D]
};

}  // namespace phidias
