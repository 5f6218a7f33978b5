#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace phidias {
namespace {

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Where sleeping begins: longer than the gap between two phases of a step, short enough that an
// idle engine costs nothing.
constexpr std::chrono::microseconds kSpin{50};
// The clock is asked once in so many rounds.
constexpr int kRoundsPerLook = 64;

}  // namespace

struct ThreadPool::State {
  // One line each, so that a waiting thread does not disturb the others.
  alignas(64) std::atomic<uint32_t> generation{0};  // grows by one with each job, and at the end
  alignas(64) std::atomic<uint32_t> pending{0};     // workers that have not finished the job

  // The job; written before `generation` is raised, read after.
  alignas(64) const ParallelBody* body = nullptr;
  size_t count = 0;
  size_t grain = 1;
  bool stopping = false;

  std::mutex callers;
  std::vector<std::thread> workers;
  size_t threads = 1;
  bool may_spin = true;

  // Waits while `value` is `old`: a short spin, then a futex. Returns the new value.
  uint32_t await_change(const std::atomic<uint32_t>& value, uint32_t old) const {
    if (may_spin) {
      const auto deadline = std::chrono::steady_clock::now() + kSpin;
      do {
        for (int round = 0; round < kRoundsPerLook; ++round) {
          const uint32_t now = value.load(std::memory_order_acquire);
          if (now != old) return now;
          pause_cpu();
        }
      } while (std::chrono::steady_clock::now() < deadline);
    }
    value.wait(old, std::memory_order_acquire);
    return value.load(std::memory_order_acquire);
  }

  void run_share(size_t thread) const {
    const size_t units = (count + grain - 1) / grain;
    const size_t begin = units * thread / threads * grain;
    const size_t end = std::min(count, units * (thread + 1) / threads * grain);
    if (begin < end) (*body)(begin, end, thread);
  }

  void work(size_t thread) {
    for (uint32_t seen = 0;;) {
      uint32_t now = seen;
      while (now == seen) now = await_change(generation, seen);
      seen = now;
      if (stopping) return;
      run_share(thread);
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
    }
  }
};

ThreadPool::ThreadPool(size_t threads) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.threads = std::max<size_t>(threads, 1);
  // A spinning thread must not keep the core from the one it waits for.
  state.may_spin = state.threads <= usable_cores();
  state.workers.reserve(state.threads - 1);
  for (size_t thread = 1; thread < state.threads; ++thread) {
    state.workers.emplace_back([&state, thread] { state.work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  State& state = *state_;
  state.stopping = true;
  state.generation.fetch_add(1, std::memory_order_release);
  state.generation.notify_all();
  for (std::thread& worker : state.workers) worker.join();
}

size_t ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(size_t count, size_t grain, ParallelBody body) {
  if (count == 0) return;
  State& state = *state_;
  const std::lock_guard lock(state.callers);
  // Nothing to share: waking the others costs more than most such work.
  if (count <= std::max<size_t>(grain, 1)) return body(0, count, 0);
  state.body = &body;
  state.count = count;
  state.grain = std::max<size_t>(grain, 1);
  if (state.threads > 1) {
    state.pending.store(static_cast<uint32_t>(state.threads - 1), std::memory_order_relaxed);
    state.generation.fetch_add(1, std::memory_order_release);
    state.generation.notify_all();
  }
  state.run_share(0);
  uint32_t left = state.pending.load(std::memory_order_acquire);
  while (left != 0) left = state.await_change(state.pending, left);
}

}  // namespace phidias
