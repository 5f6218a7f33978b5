// What the commands that write checkpoints have in common.
#pragma once

#include <functional>
#include <string>

#include "phidias/convert.h"
#include "phidias/status.h"

namespace phidias::cli {

// Runs a conversion under a progress bar on standard error; Ctrl-C stops it. Then says what it
// cost: seconds, bytes before and after, bits a weight.
//   target   what was written, for the last line
Result<int> run_conversion(const std::string& target, bool json,
                           const std::function<Result<ConversionReport>(
                               std::function<bool(const ConversionProgress&)> progress)>& convert);

}  // namespace phidias::cli
