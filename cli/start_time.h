// How long this program takes from its start to the first token, by starting it.
#pragma once

#include <string>
#include <vector>

#include "phidias/status.h"

namespace phidias::cli {

struct StartTimes {
  std::vector<double> cold;  // seconds; empty where the file could not be dropped from memory
  std::vector<double> warm;
};

// Runs `phidias generate` for one token of a one-token prompt, whole processes, a few times: with
// the model's files dropped from the system's cache before, and with them in it.
//   files    of the model at `path`; nobody may have them mapped
//   weights  type to convert to, or "file"
//   threads  0: that command's own choice
// Errors: kInternal where the command fails.
Result<StartTimes> measure_starts(const std::string& path, const std::vector<std::string>& files,
                                  const std::string& weights, size_t threads);

}  // namespace phidias::cli
