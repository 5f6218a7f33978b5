#include "start_time.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace phidias::cli {
namespace {

constexpr int kRepetitions = 3;

// Wall seconds of one whole process.
Result<double> time_start(const std::string& path, const std::string& weights, size_t threads) {
  std::vector<std::string> words = {"phidias", "generate", "-m", path,        "--ids",
                                    "1",       "-n",       "1",  "--weights", weights};
  if (threads != 0) words.insert(words.end(), {"-t", std::to_string(threads)});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int failed = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    return Error{Code::kInternal, "a run of `phidias generate` to time the start failed", {}};
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Asks the system to forget the file's pages; whether nearly all of them are gone. A file system
// that lives in memory cannot.
bool drop_from_cache(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  ::fdatasync(descriptor);  // pages that are not yet on the disk stay
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  bool dropped = false;
  struct stat info = {};
  if (::fstat(descriptor, &info) == 0 && info.st_size > 0) {
    const auto bytes = static_cast<size_t>(info.st_size);
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED) {
      const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
      std::vector<unsigned char> resident((bytes + page - 1) / page);
      if (::mincore(mapped, bytes, resident.data()) == 0) {
        const auto left = std::count_if(resident.begin(), resident.end(),
                                        [](unsigned char flags) { return (flags & 1) != 0; });
        dropped = static_cast<size_t>(left) <= resident.size() / 50;
      }
      ::munmap(mapped, bytes);
    }
  }
  ::close(descriptor);
  return dropped;
}

}  // namespace

Result<StartTimes> measure_starts(const std::string& path, const std::vector<std::string>& files,
                                  const std::string& weights, size_t threads) {
  StartTimes times;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    bool cold = true;
    for (const std::string& file : files) cold = drop_from_cache(file) && cold;
    auto first = time_start(path, weights, threads);
    if (!first.ok()) return std::move(first).error();
    if (cold) times.cold.push_back(*first);
    auto second = time_start(path, weights, threads);
    if (!second.ok()) return std::move(second).error();
    times.warm.push_back(*second);
  }
  return times;
}

}  // namespace phidias::cli
