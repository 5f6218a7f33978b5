// Runs that refer to each other's values by name: interchange of activations as one document.
//
//   const auto place = kValues.layers[3].layer_output.at(kLast);
//   const NamedRun runs[] = {
//       {.name = "clean", .ids = clean},
//       {.name = "patched", .ids = corrupt, .reads = {{kValues.logits}},
//        .edits = {patch(place, {"clean", place})}}};
//   Result<std::vector<Traced>> all = trace_runs(engine, runs);
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/engine.h"
#include "phidias/status.h"
#include "phidias/trace.h"

namespace phidias {

struct NamedRun {
  std::string name;
  std::vector<TokenId> ids;
  std::vector<Read> reads;
  Edits edits;    // may be of values of other runs: Edit::from
  Metric metric;  // of reads that are gradients
  TraceOptions options = {};
};

// One for each run, in their order; they are run in an order in which each finds what it refers to.
// A value of another run is as its edits leave it. With Edit::position_map the edited positions and
// those of the value are left out (all); of several layers each takes its own, or all take the one
// that is named. Errors: kInvalidArgument (names that repeat or are nowhere, runs that refer to
// each other in a circle, layers that are not as many) and those of Trace, with the run in the
// place.
Result<std::vector<Traced>> trace_runs(Engine& engine, std::span<const NamedRun> runs);

// JSON: {"runs": [{"name", "ids" or "text", "edits", "read", "grad", "metric", "generate"}]}; edits
// as edits_from_json() reads them, their tensors also {"run": "clean", "value": "logits"} (without
// "value": the edited one); "read" and "grad" lists of paths as parse_read() takes them, or
// {"value", "moment": "before"}; the metric as metric_from_json() reads it. Errors:
// kInvalidArgument with the JSON path; kNotFound for text where the model has no tokenizer.
Result<std::vector<NamedRun>> runs_from_json(std::string_view json, const Model& model,
                                             TensorFiles files = TensorFiles::kRefused,
                                             const std::string& file = {});

}  // namespace phidias
