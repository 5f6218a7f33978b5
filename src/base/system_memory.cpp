#include "base/system_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace phidias {
namespace {

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return {};
}

// The path of this process in the unified hierarchy ("0::/user.slice"), or in the memory
// controller's of version 1.
std::string group_path(const std::string& proc_root) {
  std::ifstream file(proc_root + "/self/cgroup");
  std::string line;
  std::string unified;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) unified = line.substr(second + 1);
    if (controllers.find("memory") != std::string::npos) return line.substr(second + 1);
  }
  return unified;
}

}  // namespace

uint64_t available_memory(const char* proc_root, const char* cgroup_root) {
  uint64_t available = std::numeric_limits<uint64_t>::max();
  std::ifstream info(std::string(proc_root) + "/meminfo");
  std::string key;
  uint64_t kibibytes = 0;
  std::string unit;
  while (info >> key >> kibibytes) {
    std::getline(info, unit);
    if (key == "MemAvailable:") available = kibibytes * 1024;
  }
  const std::string root = cgroup_root;
  const std::string own = group_path(proc_root);
  const std::pair<std::string, std::string> limits[] = {
      {root + own + "/memory.max", root + own + "/memory.current"},
      {root + "/memory.max", root + "/memory.current"},
      {root + "/memory" + own + "/memory.limit_in_bytes",
       root + "/memory" + own + "/memory.usage_in_bytes"},
      {root + "/memory/memory.limit_in_bytes", root + "/memory/memory.usage_in_bytes"},
  };
  for (const auto& [limit_file, usage_file] : limits) {
    const auto limit = number_in(limit_file);
    const auto usage = number_in(usage_file);
    if (limit && usage) available = std::min(available, *limit > *usage ? *limit - *usage : 0);
  }
  return available == std::numeric_limits<uint64_t>::max() ? uint64_t{1} << 30 : available;
}

}  // namespace phidias
