#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace phidias {
namespace {

// Far beyond any machine: a bound on what a broken file can make us do.
constexpr long kMostCpus = 1 << 16;

std::optional<long> parse(const std::string& text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  return words;
}

// CPUs of the affinity mask, from a line such as "Cpus_allowed_list:	0-3,8"; empty if there is
// none.
std::set<long> allowed_cpus(const std::string& proc_root) {
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  std::set<long> allowed;
  std::ifstream file(proc_root + "/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    const size_t start = line.find_first_not_of(" \t", kKey.size());
    std::istringstream ranges(start == std::string::npos ? "" : line.substr(start));
    for (std::string range; std::getline(ranges, range, ',');) {
      const size_t dash = range.find('-');
      const std::optional<long> first = parse(range.substr(0, dash));
      const std::optional<long> last =
          dash == std::string::npos ? first : parse(range.substr(dash + 1));
      if (!first || !last || *last - *first > kMostCpus) continue;
      for (long cpu = *first; cpu <= *last; ++cpu) allowed.insert(cpu);
    }
  }
  return allowed;
}

// Physical cores among the allowed CPUs by /proc/cpuinfo: threads of a core share "physical id"
// and "core id". A CPU that names neither counts as a core of its own.
size_t physical_cores(const std::set<long>& allowed, const std::string& proc_root) {
  std::ifstream file(proc_root + "/cpuinfo");
  std::set<std::string> cores;
  std::string processor, package, core;
  const auto finish = [&] {
    const std::optional<long> cpu = parse(processor);
    if (cpu && (allowed.empty() || allowed.contains(*cpu))) {
      cores.insert(core.empty() ? "cpu " + processor : package + "/" + core);
    }
    processor.clear();
    package.clear();
    core.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) {
      finish();
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    const std::string value = start == std::string::npos ? "" : line.substr(start);
    if (key == "processor") processor = value;
    if (key == "physical id") package = value;
    if (key == "core id") core = value;
  }
  finish();
  return cores.size();
}

// The folders from `path` up to the root: each may set its own quota.
std::vector<std::string> and_parents(const std::string& root, std::string path) {
  std::vector<std::string> folders;
  while (!path.empty() && path != "/") {
    folders.push_back(root + path);
    path.erase(path.rfind('/'));
  }
  folders.push_back(root);
  return folders;
}

// The smallest quota of this process's control groups, in whole CPUs rounded down.
std::optional<long> quota_cpus(const std::string& cgroup_root, const std::string& proc_root) {
  std::optional<long> smallest;
  const auto note = [&](std::optional<long> quota, std::optional<long> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;
    const long cpus = *quota / *period;
    smallest = smallest ? std::min(*smallest, cpus) : cpus;
  };
  // Lines of /proc/self/cgroup: "0::/path" (v2) and "4:cpu,cpuacct:/path" (v1). Inside a container
  // the path may be the host's; the mounted root is then the group itself.
  std::string v1_path = "/";
  std::string v2_path = "/";
  std::ifstream file(proc_root + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") v2_path = line.substr(second + 1);
    if (controllers.find(",cpu,") != std::string::npos) v1_path = line.substr(second + 1);
  }
  for (const std::string& mount : {cgroup_root, cgroup_root + "/unified"}) {
    for (const std::string& folder : and_parents(mount, v2_path)) {
      const std::vector<std::string> words = words_of(folder + "/cpu.max");
      if (words.size() == 2) note(parse(words[0]), parse(words[1]));
    }
  }
  for (const char* controller : {"/cpu", "/cpu,cpuacct"}) {
    for (const std::string& folder : and_parents(cgroup_root + controller, v1_path)) {
      const std::vector<std::string> quota = words_of(folder + "/cpu.cfs_quota_us");
      const std::vector<std::string> period = words_of(folder + "/cpu.cfs_period_us");
      if (quota.size() == 1 && period.size() == 1) note(parse(quota[0]), parse(period[0]));
    }
  }
  return smallest;
}

}  // namespace

size_t usable_cores(const char* cgroup_root, const char* proc_root) {
  const std::set<long> allowed = allowed_cpus(proc_root);
  size_t cores = physical_cores(allowed, proc_root);
  if (cores == 0) cores = allowed.empty() ? std::thread::hardware_concurrency() : allowed.size();
  if (const std::optional<long> quota = quota_cpus(cgroup_root, proc_root)) {
    cores = std::min(cores, static_cast<size_t>(*quota));
  }
  return std::max<size_t>(cores, 1);
}

}  // namespace phidias
