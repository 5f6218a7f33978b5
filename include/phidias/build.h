// What this build and this machine have.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace phidias {

struct BuildInfo {
  std::string compiler;
  std::string build_type;
  std::string cpu;
  size_t usable_cores = 0;
  std::vector<std::pair<std::string, bool>> kernels;  // table, and whether this CPU can run it
  std::vector<std::pair<std::string, std::string>> model_types;  // name, description
  std::vector<std::string> formats;                              // of weights
};

BuildInfo build_info();

}  // namespace phidias
