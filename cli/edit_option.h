// --edit, the same for every command that runs a model.
#pragma once

#include <string>
#include <vector>

#include "command_options.h"
#include "phidias/edits.h"

namespace phidias::cli {

void declare_edits(CommandOptions& command, std::vector<std::string>& edits);
// Each argument is a file of JSON or one line.
Result<Edits> read_edits(const std::vector<std::string>& arguments);

}  // namespace phidias::cli
