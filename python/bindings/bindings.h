// What the files of the extension module share: one function each, errors as exceptions, arrays.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "phidias/status.h"
#include "phidias/trace.h"
#include "phidias/values.h"

namespace phidias::python {

namespace nb = nanobind;

using Dict = nb::typed<nb::dict, nb::str, nb::any>;

void bind_errors(nb::module_& module);
void bind_text(nb::module_& module);
void bind_model(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_generation(nb::module_& module);
void bind_values(nb::module_& module);
void bind_autoencoder(nb::module_& module);
void bind_edits(nb::module_& module);
void bind_trace(nb::module_& module);
void bind_images(nb::module_& module);
void bind_analysis(nb::module_& module);
void bind_datasets(nb::module_& module);

// An Error on its way to Python, where it becomes the exception that phidias.errors has for its
// code.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  const Error& error() const { return error_; }
  const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

// The value, or its error thrown.
template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw Failure(std::move(result).error());
  return std::move(result).value();
}
inline void unwrap(Status status) {
  if (!status.ok()) throw Failure(std::move(status).error());
}

// An Error as the exception object that it would be raised as; None without one.
nb::object exception_object(const Error& error);

// A numpy array that owns the vector.
template <typename T>
nb::ndarray<nb::numpy, T> array_of(std::vector<T> values, const std::vector<size_t>& shape) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owner->data();
  nb::capsule capsule(owner.get(), [](void* pointer) noexcept {
    const std::unique_ptr<std::vector<T>> owned(static_cast<std::vector<T>*>(pointer));
  });
  owner.release();  // NOLINT(bugprone-unused-return-value): the capsule has it
  return nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), capsule);
}

// Which moment of a value is kept, by its name.
Read::Moment moment_of(const std::string& name);

// The code point that a text of one is.
char32_t code_point_of(const std::string& text);

// Positions from a list, or from text such as "last", "2:5", "decode".
Positions positions_of(const std::variant<std::string, std::vector<int64_t>>& argument);

}  // namespace phidias::python
