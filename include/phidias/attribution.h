// How much each value matters to a metric: estimates of what patching it would do, out of gradients
// in place of one run for each value.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "phidias/engine.h"
#include "phidias/metric.h"
#include "phidias/status.h"
#include "phidias/trace.h"

namespace phidias {

enum class AttributionMethod : uint8_t {
  // gradient at the corrupt run, times (clean - corrupt): attribution patching.
  kPatching,
  // The gradient's mean along the straight way from the corrupt to the clean value (all of its
  // positions move together), times (clean - corrupt): integrated gradients (Sundararajan, Taly and
  // Yan, 2017), by the midpoint rule. Its sum approaches the metric's change that patching the
  // whole
  // value makes.
  kIntegrated,
  // AtP* (Kramár, Lieberum, Shah and Nanda, 2024): as kPatching, but that of queries and of keys,
  // which a softmax follows, goes by the probabilities that the patched query or key gives: one
  // number for each vector, last axis 1.
  kStar,
};

struct AttributionOptions {
  AttributionMethod method = AttributionMethod::kPatching;
  uint32_t steps = 16;  // kIntegrated: points on the way; at least 1
  // AtP*'s GradDrop: once for each layer the gradient through its contributions is cut; the mean
  // magnitude is returned. Effects that cancel stay visible. One backward pass a layer.
  bool drop = false;
  RopeSwitch rope_switch = RopeSwitch::kReprefill;
  uint64_t max_bytes = uint64_t{8} << 30;                   // of what one run keeps
  std::function<bool(size_t done, size_t all)> progress{};  // runs; false cancels
};

struct Attribution {
  double clean = 0;  // the metric of both runs
  double corrupt = 0;
  // One for each value and layer, in the order asked for: in the value's layout, entry by entry.
  std::vector<Traced::Entry> entries;
};

// Two texts of the same number of tokens. Errors: kInvalidArgument (lengths that differ, no value,
// a value without a gradient, steps of 0, kStar of a part of queries or keys), and those of
// Trace::run.
Result<Attribution> attribute(Engine& engine, std::span<const TokenId> clean,
                              std::span<const TokenId> corrupt, const Metric& metric,
                              std::span<const ValueRef> values,
                              const AttributionOptions& options = {});

}  // namespace phidias
