// Fork-join over a fixed number of threads with static shares: which thread does what is a function
// of the item count alone, and no result depends on it.
#pragma once

#include <cstddef>
#include <memory>

namespace phidias {

// Refers to something that can be called as body(begin, end, thread), without owning it: a call
// that allocates nothing, however much the body captures.
class ParallelBody {
 public:
  template <class Body>
  // NOLINTNEXTLINE(google-explicit-constructor): lambdas are passed as they are
  ParallelBody(const Body& body)
      : body_(&body), call_([](const void* of, size_t begin, size_t end, size_t thread) {
          (*static_cast<const Body*>(of))(begin, end, thread);
        }) {}
  void operator()(size_t begin, size_t end, size_t thread) const {
    call_(body_, begin, end, thread);
  }

 private:
  const void* body_;
  void (*call_)(const void*, size_t, size_t, size_t);
};

// The interface that kernels and model see.
class ParallelFor {
 public:
  virtual ~ParallelFor() = default;
  virtual size_t threads() const = 0;
  // Calls body(begin, end, thread) once per thread with contiguous shares of [0, count) in units of
  // `grain` (all but the last share end at a multiple of it); empty shares are not called. Returns
  // when all are done; what the bodies wrote is then visible to the caller. The body must not throw
  // and must not call run() again.
  virtual void run(size_t count, size_t grain, ParallelBody body) = 0;
};

// Threads that spin for a short while (about 50 us) and then sleep on a futex. The calling thread
// takes share 0, and a single unit. One caller at a time (a second one waits); several pools can
// live in one process.
class ThreadPool final : public ParallelFor {
 public:
  explicit ThreadPool(size_t threads);  // 0 is taken as 1
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const override;
  void run(size_t count, size_t grain, ParallelBody body) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Physical cores that this process may use: affinity mask and cgroup quota (v1 and v2) respected,
// rounded down, at least 1. The folder arguments exist for tests.
size_t usable_cores(const char* cgroup_root = "/sys/fs/cgroup", const char* proc_root = "/proc");

}  // namespace phidias
