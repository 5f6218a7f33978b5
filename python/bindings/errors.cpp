#include <nanobind/stl/string.h>

#include "bindings.h"

namespace phidias::python {

nb::object exception_object(const Error& error) {
  nb::object offset = nb::none();
  if (error.place.offset) offset = nb::int_(*error.place.offset);
  return nb::module_::import_("phidias.errors")
      .attr("from_code")(std::string(code_name(error.code)), error.message, error.place.file,
                         error.place.item, offset);
}

void bind_errors(nb::module_& /*module*/) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Failure& failure) {
      const nb::object exception = exception_object(failure.error());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    }
  });
}

}  // namespace phidias::python
