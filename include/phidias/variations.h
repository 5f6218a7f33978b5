// One text, run many times with other edits each time: what patching, ablation and causal tracing
// are made of.
//
// The text is run once, with its streams kept. Each variation then runs only what its edits can
// change: from its first edited layer on, and in it from its first edited position on. The others'
// bits are those of the first run, so the results are those of whole runs, to the bit. Variations
// that begin at the same layer go through it together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "phidias/edits.h"
#include "phidias/engine.h"
#include "phidias/metric.h"
#include "phidias/options.h"
#include "phidias/status.h"

namespace phidias {

struct VariationOptions {
  Edits edits;  // of every run; a variation's own come behind them
  RopeSwitch rope_switch = RopeSwitch::kReprefill;
  // Told the variations done and in all; false cancels.
  std::function<bool(size_t done, size_t all)> progress;
};

struct Variations {
  double base = 0;             // the metric without a variation
  std::vector<double> metric;  // of each variation
  // Rows times layers that were run, the first run included; a whole run is tokens times layers.
  uint64_t layer_rows = 0;
};

// The metric reads logits alone. Needs memory for the streams, layers + 1 times tokens times
// hidden_size floats. Errors: kInvalidArgument (the metric; an edit that does not fit), kCancelled,
// kOutOfMemory, those of Engine::step.
Result<Variations> run_variations(Engine& engine, const std::vector<TokenId>& ids,
                                  std::span<const Edits> variations, const Metric& metric,
                                  const VariationOptions& options = {});

}  // namespace phidias
