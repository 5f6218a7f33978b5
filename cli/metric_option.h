// --metric, the same for every command that measures a run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "phidias/metric.h"

namespace phidias::cli {

CLI::Option* declare_metric(CLI::App& app, std::string& metric);
// The JSON itself, a line such as `logit_diff( Paris, Rome)`, or a file of JSON.
Result<Metric> read_metric(const std::string& argument, const Model& model);

}  // namespace phidias::cli
