// Long work that Python is told about, and may end.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "bindings.h"

namespace phidias::python {

// progress(done, of) of Python's, which returns False to stop; None: nobody is told.
using ProgressFunction = std::optional<std::function<bool(uint64_t, uint64_t)>>;

// The function as the library calls it, from a thread without the interpreter's lock. Ctrl-C ends
// the work as well. What the function raises waits for the end.
class Progress {
 public:
  explicit Progress(const ProgressFunction& function) : function_(function) {}

  bool operator()(uint64_t done, uint64_t total) {
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) {
      thrown_ = std::make_exception_ptr(nb::python_error());
      return false;
    }
    if (!function_) return true;
    try {
      return (*function_)(done, total);
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
  }

  // The work's value, or what was raised, or its error.
  template <typename T>
  T result(Result<T> result) {
    if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
    return unwrap(std::move(result));
  }

 private:
  const ProgressFunction& function_;
  std::exception_ptr thrown_;
};

}  // namespace phidias::python
