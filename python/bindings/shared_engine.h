// An engine that Python may hold in several hands. The library's engine takes one thread at a time;
// here whoever comes second waits, with the interpreter's lock given back meanwhile.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "bindings.h"
#include "phidias/engine.h"
#include "progress.h"

namespace phidias::python {

class SharedEngine {
 public:
  explicit SharedEngine(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
  ~SharedEngine() { retired_.clear(); }
  SharedEngine(const SharedEngine&) = delete;
  SharedEngine& operator=(const SharedEngine&) = delete;

  // Calls function(Engine&) without the interpreter's lock. From inside a callback of the same
  // engine it fails instead of waiting for itself.
  template <typename Function>
  auto use(Function&& function) {
    if (in_callback()) {
      throw Failure(Error{Code::kInvalidArgument,
                          "the engine is running: a callback must not use it; collect what is "
                          "needed and use the engine afterwards",
                          {}});
    }
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    const Turn turn(user_);
    bury();
    return function(*engine_);
  }

  // As use(), for a function that takes its time and returns a Result or a Status: Ctrl-C ends it
  // at the next pass. Its value, or its error raised, or what Python has raised meanwhile.
  template <typename Function>
  auto work(Progress& told, Function&& function) {
    return told.result(use([&](Engine& engine) {
      const Interruptible interruptible(engine, told);
      return function(engine);
    }));
  }
  template <typename Function>
  auto work(Function&& function) {
    Progress told;
    return work(told, std::forward<Function>(function));
  }

  bool in_callback() const { return user_.load() == std::this_thread::get_id(); }

  // Takes what has to be destroyed under the engine's lock, and destroys it at the next use: a
  // destructor must not wait, since it may run anywhere, even inside a callback.
  void retire(std::shared_ptr<void> object) {
    const std::lock_guard lock(retired_mutex_);
    retired_.push_back(std::move(object));
  }

  // What does not change while the engine lives may be read at any time.
  const Engine& constant() const { return *engine_; }

 private:
  struct Turn {
    explicit Turn(std::atomic<std::thread::id>& who) : user(who) {
      user.store(std::this_thread::get_id());
    }
    ~Turn() { user.store(std::thread::id()); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    std::atomic<std::thread::id>& user;
  };

  struct Interruptible {
    Interruptible(Engine& one, Progress& told) : engine(one) {
      engine.interrupt_with([&told] { return told.interrupted(); });
    }
    ~Interruptible() { engine.interrupt_with({}); }
    Interruptible(const Interruptible&) = delete;
    Interruptible& operator=(const Interruptible&) = delete;
    Engine& engine;
  };

  void bury() {
    std::vector<std::shared_ptr<void>> dead;
    const std::lock_guard lock(retired_mutex_);
    dead.swap(retired_);
  }

  std::unique_ptr<Engine> engine_;
  std::mutex mutex_;
  std::atomic<std::thread::id> user_{};
  std::mutex retired_mutex_;
  std::vector<std::shared_ptr<void>> retired_;
};

// EngineOptions from what Python says.
EngineOptions engine_options(size_t threads, const std::string& numerics, const std::string& kv,
                             uint32_t context, uint64_t cache_budget, uint32_t step_rows,
                             uint32_t page_positions, const std::string& isa);

}  // namespace phidias::python
