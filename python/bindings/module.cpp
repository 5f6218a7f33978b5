// The extension module phidias._core: the C++ library's public headers, as they are. What makes
// them pleasant in Python is Python, in python/phidias.
#include "bindings.h"

NB_MODULE(_core, module) {
  module.doc() = "The C++ library, bound. Use the package phidias, which stands on it.";
  // Python modules that are still there when the interpreter ends hold objects of ours.
  nanobind::set_leak_warnings(false);
  phidias::python::bind_errors(module);
  phidias::python::bind_text(module);
  phidias::python::bind_model(module);
  phidias::python::bind_values(module);
  phidias::python::bind_edits(module);
  phidias::python::bind_autoencoder(module);
  phidias::python::bind_images(module);
  phidias::python::bind_engine(module);
  phidias::python::bind_trace(module);
  phidias::python::bind_generation(module);
  phidias::python::bind_analysis(module);
  phidias::python::bind_datasets(module);
}
