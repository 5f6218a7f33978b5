// --edit, the same for every command that runs a model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "phidias/edits.h"

namespace phidias::cli {

void declare_edits(CLI::App& app, std::vector<std::string>& edits);
// Each argument is a file of JSON or one line.
Result<Edits> read_edits(const std::vector<std::string>& arguments);

}  // namespace phidias::cli
