// How the next token is chosen, as options.
#pragma once

#include <string>
#include <vector>

#include "command_options.h"
#include "phidias/sampling.h"

namespace phidias::cli {

struct SamplingArguments {
  SamplingOptions options;
  std::vector<std::string> bias;  // "id=value"
  Option seed_option;

  void declare(CommandOptions& command);
  Result<SamplingOptions> resolve() const;
};

}  // namespace phidias::cli
