// Which places carry a difference between two texts, and which a text depends on: activation
// patching, causal tracing and ablation, as tables of a metric.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "phidias/engine.h"
#include "phidias/metric.h"
#include "phidias/status.h"
#include "phidias/values.h"
#include "phidias/variations.h"

namespace phidias {

// What the columns of a sweep's table are; its rows are the layers.
enum class SweepAxis : uint8_t {
  kPositions,  // one position at a time
  kHeads,      // one head at a time, at all positions
  kLayers,     // one column: the whole value
};
// "positions", "heads", "layers". Errors: kInvalidArgument with those there are.
Result<SweepAxis> sweep_axis_from_name(std::string_view name);

struct SweepOptions {
  SweepAxis axis = SweepAxis::kPositions;
  // Layers that are changed together, the cell's own in their middle. At least 1.
  uint32_t window = 1;
  // Of the run that is changed. Causal tracing (Meng et al., 2022): both texts are the same, and
  // this is noise on the embeddings of its subject.
  Edits edits;
  std::function<bool(size_t done, size_t all)> progress;  // false cancels
};

struct Sweep {
  size_t layers = 0;
  size_t columns = 0;
  std::vector<double> metric;  // [layers, columns]: of the run with this place changed
  double clean = 0;            // of the clean text
  double base = 0;             // of the run that is changed, with nothing changed in it

  double at(size_t layer, size_t column) const { return metric[layer * columns + column]; }
  // Share of the difference between base and clean that a change brings back: 0 none, 1 all.
  double recovered(size_t layer, size_t column) const {
    return (at(layer, column) - base) / (clean - base);
  }
};

// Runs the corrupt text with places of `value` as they are in the clean one. The texts have equally
// many tokens; the value is a writable one of the layers with a row for each position, and heads
// where the axis asks for them; the metric reads logits alone. Errors: kInvalidArgument,
// kCancelled, those of run_variations() and Trace.
Result<Sweep> patch_sweep(Engine& engine, const std::vector<TokenId>& clean,
                          const std::vector<TokenId>& corrupt, ValueId value, const Metric& metric,
                          const SweepOptions& options = {});

// Runs a text with places of `value` taken out.
enum class Ablation : uint8_t {
  kZero,
  kMean,  // each is the value's mean over the positions of the text
};
// "zero", "mean". Errors: kInvalidArgument with those there are.
Result<Ablation> ablation_from_name(std::string_view name);
// `clean` is the metric of the text without SweepOptions::edits. Errors: as patch_sweep().
Result<Sweep> ablation_sweep(Engine& engine, const std::vector<TokenId>& ids, ValueId value,
                             Ablation ablation, const Metric& metric,
                             const SweepOptions& options = {});

}  // namespace phidias
