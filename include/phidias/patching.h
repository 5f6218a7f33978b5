// Which places carry a difference between two texts: activation patching.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "phidias/engine.h"
#include "phidias/metric.h"
#include "phidias/status.h"
#include "phidias/tensors.h"
#include "phidias/values.h"

namespace phidias {

// The metric of the corrupt text with one value of one layer and position put in from the clean
// one.
struct PatchSweep {
  size_t layers = 0;
  size_t positions = 0;
  std::vector<double> metric;  // [layers, positions]
  double clean = 0;            // of the texts as they are
  double corrupt = 0;

  // 0: as the corrupt text; 1: as the clean one.
  double recovered(size_t layer, size_t position) const {
    return (metric[layer * positions + position] - corrupt) / (clean - corrupt);
  }
};
// The texts have equally many tokens. `value` of any layer with a seq axis behind the batch, such
// as layer_output, attention_output, mlp_output. The metric reads logits alone. `progress` is told
// the runs done and in all; false cancels. Errors: kInvalidArgument, kCancelled, those of Trace.
Result<PatchSweep> patch_sweep(Engine& engine, const std::vector<TokenId>& clean,
                               const std::vector<TokenId>& corrupt, ValueId value,
                               const Metric& metric,
                               const std::function<bool(size_t, size_t)>& progress = {});

}  // namespace phidias
