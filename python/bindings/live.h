// Python functions on live rows of a run.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "phidias/edits.h"
#include "phidias/tensors.h"

namespace phidias::python {

// What callbacks have raised: the engine knows no exceptions, so the first one waits here for the
// end of the run, and no further callback is made.
class Raised {
 public:
  bool any() const { return first_ != nullptr; }
  void keep(std::exception_ptr exception) {
    if (first_ == nullptr) first_ = std::move(exception);
  }
  void rethrow() {
    if (first_ != nullptr) std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  std::exception_ptr first_;
};

// Which value a function waits for; while it is another's turn the function is not called, and
// nothing is copied. Written with the interpreter's lock, or before the run.
struct Gate {
  std::optional<std::pair<ValueId, size_t>> wanted;  // and its layer
};

// phidias::Where, owning its memory.
struct LiveWhere {
  std::string name;
  size_t layer = 0;
  uint32_t position = 0;
  size_t rows = 0;
  uint32_t epoch = 0;
  std::vector<TokenId> tokens;
  bool cancel = false;  // set by the function: the run is to end
};

// The function as a callback. It is called as function(array, where), with the interpreter's lock,
// where `array` has the value's layout with a batch axis of 1. The array is memory of its own,
// filled before and written back after the call: whoever keeps it, or a view of it, keeps what it
// was, and the engine's rows are never written through it afterwards.
EditCallback callback_of(const nb::callable& function, std::shared_ptr<Raised> raised,
                         std::shared_ptr<const Gate> gate = nullptr);

Tensor tensor_from(const nb::ndarray<const float, nb::c_contig, nb::device::cpu>& array);
// A numpy array that owns the tensor's numbers.
nb::object array_from(Tensor tensor);

}  // namespace phidias::python
