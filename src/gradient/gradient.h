// The gradient of a number (the objective) with respect to every value of the network, on frozen
// weights of any number format: one pass backwards over a stored run.
//
// Each layer is run again from its stored input by the forward's own blocks in exact numerics,
// edits included, and then walked back. After a run in exact numerics the recomputed values are its
// own, to the bit. After one in fast numerics the gradient is that of the exact network at the
// stored streams; what fast numerics rounds inside a layer is not part of it.
//
// Memory: the stored streams, [layers + 1, N, D], and one layer's values and their gradients.
// The same bits whatever the threads and whatever is asked for.
#pragma once

#include <cstdint>
#include <span>

#include "gradient/stored_run.h"
#include "kernels/table.h"
#include "model/spec.h"
#include "model/taps.h"
#include "model/weights.h"
#include "phidias/status.h"

namespace phidias {

enum class WeightMatrix : uint8_t { kQkv, kAttentionOutput, kGateUp, kDown, kHead };
enum class WeightVector : uint8_t { kAttentionNorm, kFfnNorm, kFinalNorm };

// The rows of a product y = W x that gradients of W, or of what is added to W, are made of.
struct ProductRows {
  size_t rows = 0;
  uint32_t position = 0;  // of the first row; of kHead, `positions` has them
  std::span<const uint32_t> positions;
  const float* input = nullptr;            // [rows, cols of W], dense
  const float* output_gradient = nullptr;  // [rows, rows of W], dense
  float* input_gradient = nullptr;         // [rows, cols of W], dense: may be added to
};

// The rows of a norm.
struct NormRows {
  size_t rows = 0;
  const float* input = nullptr;            // [rows, D]
  const float* output_gradient = nullptr;  // [rows, D]
};

// What one backward pass is for. Called by the thread that runs it, one call at a time, in the
// reverse of the order of the sites; visit_pattern() alone comes from the pass's other threads too,
// still one call at a time, its heads in any order.
class GradientTaps {
 public:
  virtual ~GradientTaps() = default;

  // Positions whose logits the objective reads, ascending. May be empty: then what visit() adds is
  // all of the objective.
  virtual std::span<const uint32_t> outputs() const = 0;
  // Adds d objective / d logits to `gradient` [V], which is zero; `logits` [V] are those of the
  // position, edits included.
  virtual void add_objective(uint32_t position, std::span<const float> logits,
                             std::span<float> gradient) = 0;

  // Sites of a layer that visit() is called at; kModelSites as RunTaps has them. Layers below the
  // lowest one with a site are not walked.
  virtual SiteMask sites(size_t layer) const = 0;
  // The gradient with respect to the value at the site as later sites see it, edits included: of
  // all N rows; from the final norm on of the outputs, one row at a time. At kLayerInput,
  // kLayerMid and kLayerOutput it is that of the stream, both branches. What is written is what the
  // pass goes on with: so objectives that read a value are added here, an edit of the value is
  // differentiated here (set: 0, scale: times the factor, add: as it is), and gradients are cut or
  // scaled.
  virtual void visit(Site site, size_t layer, const SiteRows& gradient) = 0;
  // The same for kAttentionScores and kAttentionProbabilities: some query rows of one head, each
  // over all N keys. Probabilities have a gradient at hidden entries too (that of the head's output
  // times the value row); scores have 0 there.
  virtual void visit_pattern(Site site, size_t layer, size_t head, const SiteRows& gradient) {
    (void)site, (void)layer, (void)head, (void)gradient;
  }

  // For gradients of weights: with them every layer is walked.
  virtual bool wants_weights() const { return false; }
  virtual void visit_product(WeightMatrix weight, size_t layer, const ProductRows& rows) {
    (void)weight, (void)layer, (void)rows;
  }
  virtual void visit_norm(WeightVector weight, size_t layer, const NormRows& rows) {
    (void)weight, (void)layer, (void)rows;
  }
};

// Walks `run` backwards. `edits` are those of the run (null: none); they see each layer again.
// Errors: kUnsupported (gradients of weights of a model with experts; edits with scope "call");
// kInvalidArgument for an output beyond the run; kOutOfMemory.
Status run_backward(const ModelSpec& spec, const ModelWeights& weights, const KernelTable& kernels,
                    ParallelFor& threads, const StoredRun& run, RunTaps* edits, GradientTaps& taps);

}  // namespace phidias
