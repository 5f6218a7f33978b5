// Readings of the machine's limits.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/probes.h"
#include "phidias/bench.h"

namespace phidias {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBytes = 512U << 20;  // far beyond every cache
constexpr size_t kPage = 4096;
constexpr int kPasses = 2;  // over the memory, of each pattern; the faster counts
constexpr double kPeakSeconds = 0.03;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Best of several passes: what slows one down is somebody else.
template <typename Work>
double best_seconds(int passes, const Work& work) {
  double best = 1e30;
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = Clock::now();
    work();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

double peak(const PeakProbe& probe, ParallelFor& threads, std::atomic<uint64_t>& sink) {
  const auto run = [&](size_t rounds) {
    threads.run(threads.threads(), 1, [&](size_t, size_t, size_t) { sink += probe.run(rounds); });
  };
  constexpr size_t kTrial = 100000;
  const double trial = best_seconds(2, [&] { run(kTrial); });
  const auto rounds = static_cast<size_t>(kTrial * std::max(1.0, kPeakSeconds / trial));
  const double seconds = best_seconds(3, [&] { run(rounds); });
  return probe.operations_per_round * static_cast<double>(rounds * threads.threads()) / seconds;
}

}  // namespace

MachineReading read_machine(size_t thread_count, const std::string& isa) {
  const MachineProbes& probes = machine_probes(isa);
  ThreadPool threads(thread_count == 0 ? usable_cores() : thread_count);
  std::atomic<uint64_t> sink{0};
  MachineReading reading;
  {
    AlignedBuffer<std::byte> memory(kBytes);
    threads.run(kBytes, kPage, [&](size_t begin, size_t end, size_t) {
      std::fill(memory.data() + begin, memory.data() + end, std::byte{1});
    });
    for (const ReadPattern& pattern : probes.reads) {
      const double seconds = best_seconds(kPasses, [&] {
        threads.run(kBytes, kPage, [&](size_t begin, size_t end, size_t) {
          sink += pattern.read(memory.data() + begin, end - begin);
        });
      });
      const double rate = kBytes / seconds;
      if (rate > reading.read_bytes_s) {
        reading.read_bytes_s = rate;
        reading.read_pattern = pattern.name;
      }
    }
  }
  reading.integer_ops_s = peak(probes.integers, threads, sink);
  reading.integer_instructions = probes.integers.name;
  reading.float_ops_s = peak(probes.floats, threads, sink);
  reading.float_instructions = probes.floats.name;
  return reading;
}

}  // namespace phidias
