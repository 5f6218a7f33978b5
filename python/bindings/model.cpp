// Checkpoints: loading them, finding them, and what their files say.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "phidias/build.h"
#include "phidias/hub.h"
#include "phidias/inspect.h"
#include "phidias/model.h"
#include "phidias/version.h"

namespace phidias::python {
namespace {

using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;

void bind_info(nb::module_& module) {
  nb::class_<ModelInfo>(module, "ModelInfo", "What a checkpoint's headers say. Read-only.")
      .def_ro("type", &ModelInfo::type, "The model type, such as 'phi3'.")
      .def_ro("path", &ModelInfo::path, "Where it was loaded from.")
      .def_ro("num_layers", &ModelInfo::num_layers, "Blocks.")
      .def_ro("hidden_size", &ModelInfo::hidden_size, "Width of the residual stream.")
      .def_ro("intermediate_size", &ModelInfo::intermediate_size, "Neurons of an MLP.")
      .def_ro("num_heads", &ModelInfo::num_heads, "Query heads.")
      .def_ro("num_kv_heads", &ModelInfo::num_kv_heads, "Key and value heads.")
      .def_ro("head_dim", &ModelInfo::head_dim, "Width of a head.")
      .def_ro("qk_head_dim", &ModelInfo::qk_head_dim, "Width of a head's queries and keys.")
      .def_ro("rotary_dim", &ModelInfo::rotary_dim, "Dimensions of a head that rotate.")
      .def_ro("vocab_size", &ModelInfo::vocab_size, "Rows of the embedding; not tokens.")
      .def_ro("max_context", &ModelInfo::max_context, "Positions that the model states.")
      .def_ro("original_context", &ModelInfo::original_context,
              "Length at which LongRoPE changes its list; 0 without it.")
      .def_ro("window", &ModelInfo::window, "Keys that a query sees; 0: all.")
      .def_ro("rope_theta", &ModelInfo::rope_theta, "Base of the rotation.")
      .def_ro("rope_magnitude", &ModelInfo::rope_magnitude, "Factor of cos and sin.")
      .def_ro("tied_head", &ModelInfo::tied_head, "The head's weight is the embedding's.")
      .def_prop_ro(
          "vision", [](const ModelInfo& self) { return self.vision.has_value(); },
          "It sees images.")
      .def_prop_ro(
          "vision_layers",
          [](const ModelInfo& self) { return self.vision ? self.vision->num_layers : 0; },
          "Layers of its vision tower; 0 without one.")
      .def_ro("parameters", &ModelInfo::parameters, "Weights, counted once.")
      .def_ro("weight_bytes", &ModelInfo::weight_bytes, "Bytes of all weights.")
      .def_ro("bytes_per_token", &ModelInfo::bytes_per_token,
              "Bytes of weights read to decode one token.")
      .def_ro("weight_types", &ModelInfo::weight_types, "Pairs of a number format and its bytes.")
      .def_ro("tensors", &ModelInfo::tensors, "Tensors in the files.")
      .def_ro("files", &ModelInfo::files, "The files of weights.")
      .def_ro("stop_ids", &ModelInfo::stop_ids, "Ids that end an answer.")
      .def_ro("notices", &ModelInfo::notices, "How something was read that a user should know of.")
      .def("__repr__", [](const ModelInfo& self) {
        return "ModelInfo(" + self.type + ", " + std::to_string(self.num_layers) + " layers of " +
               std::to_string(self.hidden_size) + ", " + std::to_string(self.parameters) +
               " parameters, '" + self.path + "')";
      });

  nb::class_<Inspection>(module, "Inspection",
                         "What a checkpoint's files say, checked without running the model.")
      .def_ro("info", &Inspection::info)
      .def_ro("config_json", &Inspection::config_json,
              "config.json as it is, or GGUF metadata as JSON.")
      .def_ro("tokenizer", &Inspection::tokenizer, "A line for people.")
      .def_ro("chat_template", &Inspection::chat_template, "A line for people.")
      .def_ro("stop_texts", &Inspection::stop_texts, "The texts of info.stop_ids.")
      .def_ro("kv_bytes_per_position", &Inspection::kv_bytes_per_position,
              "Pairs of a cache type and its bytes for one position.")
      .def_ro("problems", &Inspection::problems,
              "Tensors that are missing, unexpected or misshapen; empty: it can be run.")
      .def("__repr__", [](const Inspection& self) {
        return "Inspection(" + self.info.type + ", " + std::to_string(self.info.tensors) +
               " tensors, " + std::to_string(self.problems.size()) + " problems)";
      });
  module.def(
      "inspect", [](const std::filesystem::path& path) { return unwrap(inspect(path)); },
      nb::arg("path"), ReleaseGil(),
      nb::sig("def inspect(path: str | os.PathLike[str]) -> Inspection"),
      "Reads a checkpoint's headers and checks every tensor.");
}

void bind_hub(nb::module_& module) {
  module.def(
      "find_cached_model",
      [](const std::string& name) {
        const HubReference reference = unwrap(HubReference::parse(name));
        return unwrap(find_cached_model(reference, HubOptions::from_environment().cache)).string();
      },
      nb::arg("name"), ReleaseGil(), "The path of a model in the hub cache; no network.");
  module.def(
      "pull",
      [](const std::string& name, const std::optional<std::string>& revision,
         const std::optional<std::function<bool(const std::string&, uint64_t, uint64_t)>>& progress)
          -> std::string {
        HubReference reference = unwrap(HubReference::parse(name));
        if (revision) reference.revision = *revision;
        std::exception_ptr thrown;
        const HubProgressCallback callback = [&](const HubProgress& state) {
          const nb::gil_scoped_acquire acquire;
          try {
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
            return !progress || (*progress)(state.file, state.done, state.total);
          } catch (...) {
            thrown = std::current_exception();
            return false;
          }
        };
        const Result<std::filesystem::path> path = [&] {
          const nb::gil_scoped_release release;
          return pull_model(reference, HubOptions::from_environment(), callback);
        }();
        if (thrown) std::rethrow_exception(thrown);
        return unwrap(path).string();
      },
      nb::arg("name"), nb::arg("revision").none() = nb::none(),
      nb::arg("progress").none() = nb::none(),
      "Downloads a model ('owner/name', 'owner/name:part of a .gguf name') into the hub cache, "
      "where it is not there yet, and returns its path. progress(file, bytes, of) returns False "
      "to stop.");
}

Dict build_dict() {
  const BuildInfo build = build_info();
  nb::dict kernels;
  for (const auto& [name, usable] : build.kernels) kernels[nb::str(name.c_str())] = usable;
  nb::dict types;
  for (const auto& [name, description] : build.model_types)
    types[nb::str(name.c_str())] = description;
  Dict dict;
  dict["version"] = PHIDIAS_VERSION;
  dict["compiler"] = build.compiler;
  dict["build_type"] = build.build_type;
  dict["cpu"] = build.cpu;
  dict["usable_cores"] = build.usable_cores;
  dict["kernels"] = kernels;
  dict["model_types"] = types;
  dict["formats"] = build.formats;
  return dict;
}

}  // namespace

void bind_model(nb::module_& module) {
  bind_info(module);
  bind_hub(module);
  nb::class_<Model>(module, "Model",
                    "A loaded checkpoint. Immutable, and safe to share between threads and "
                    "engines.")
      .def_static(
          "load",
          [](const std::string& path, const std::string& weights, size_t threads) {
            return unwrap(Model::load(path, {.weights = weights, .threads = threads}));
          },
          nb::arg("path"), nb::kw_only(), nb::arg("weights") = "file", nb::arg("threads") = 0,
          ReleaseGil(), "A Hugging Face folder or a .gguf file; every tensor is checked first.")
      .def_prop_ro("info", &Model::info, nb::rv_policy::reference_internal)
      .def_prop_ro("tokenizer", &Model::tokenizer, "None where the checkpoint has none.")
      .def_prop_ro("chat_template", &Model::chat_template,
                   "The file's own, else the family's, else None.")
      .def_prop_ro("stop_ids", &Model::stop_ids, nb::rv_policy::copy,
                   "Ids that end an answer: what the files declare and the family's own.");
  module.def(
      "load_chat_template",
      [](const std::string& path) { return unwrap(load_chat_template(path)); }, nb::arg("path"),
      ReleaseGil(), "The chat template of a checkpoint that need not have weights.");
  module.def("build_info", &build_dict, "What this build and this machine have.");
}

}  // namespace phidias::python
