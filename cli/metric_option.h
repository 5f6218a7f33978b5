// --metric, the same for every command that measures a run.
#pragma once

#include <string>

#include "command_options.h"
#include "phidias/metric.h"

namespace phidias::cli {

Option declare_metric(CommandOptions& command, std::string& metric);
// The JSON itself, a line such as `logit_diff( Paris, Rome)`, or a file of JSON.
Result<Metric> read_metric(const std::string& argument, const Model& model);

}  // namespace phidias::cli
