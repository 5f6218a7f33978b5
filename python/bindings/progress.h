// Long work that Python is told about, and may end.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "bindings.h"

namespace phidias::python {

// progress(done, of) of Python's, which returns False to stop; None: nobody is told.
using ProgressFunction = std::optional<std::function<bool(uint64_t, uint64_t)>>;

// What the library calls while it works, from a thread without the interpreter's lock. Ctrl-C ends
// the work; what Python raises waits for the end.
class Progress {
 public:
  explicit Progress(ProgressFunction function = {}) : function_(std::move(function)) {}
  ~Progress() {
    const nb::gil_scoped_acquire acquire;
    function_.reset();
    thrown_ = nullptr;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // False where the work is to end.
  bool operator()(uint64_t done, uint64_t total) {
    const nb::gil_scoped_acquire acquire;
    if (signalled()) return false;
    if (!function_) return true;
    try {
      return (*function_)(done, total);
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
  }

  // Whether a signal's handler has raised. Looks up seldom, since it needs the interpreter's lock.
  bool interrupted() {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < std::chrono::milliseconds(50)) return false;
    looked_ = now;
    const nb::gil_scoped_acquire acquire;
    return signalled();
  }

  // The work's value, or what was raised, or its error.
  template <typename T>
  T result(Result<T> result) {
    rethrow();
    return unwrap(std::move(result));
  }
  void result(Status status) {
    rethrow();
    unwrap(std::move(status));
  }

 private:
  bool signalled() {
    if (PyErr_CheckSignals() == 0) return false;
    thrown_ = std::make_exception_ptr(nb::python_error());
    return true;
  }
  void rethrow() {
    if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

  ProgressFunction function_;
  std::exception_ptr thrown_;
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

}  // namespace phidias::python
