// One sub-command: its options and what it does. Each lives in a file of its own and has one row in
// main.cpp.
#pragma once

#include <functional>
#include <string>

#include "command_options.h"
#include "phidias/status.h"

namespace phidias::cli {

// Exit statuses, the same for every command (also in `phidias --help`).
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // a sentence on standard error says why
inline constexpr int kExitUsage = 2;          // the command line itself is wrong
inline constexpr int kExitInterrupted = 130;  // Ctrl-C

// Declares the options and returns what runs after parsing: the exit status, or an error to be
// shown.
using Setup = std::function<Result<int>()> (*)(CommandOptions& command);

struct Command {
  const char* name;
  const char* summary;
  Setup setup;
};

}  // namespace phidias::cli
