// Edits: plain data, and functions on live rows.
#include "phidias/edits.h"

#include <nanobind/operators.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <map>

#include "live.h"

namespace phidias::python {
namespace {

using PositionsArgument = std::variant<std::string, std::vector<int64_t>>;
using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

TensorPointer tensor_of(const std::optional<FloatArray>& array) {
  if (!array) return nullptr;
  return std::make_shared<const Tensor>(tensor_from(*array));
}

void bind_edit(nb::module_& module) {
  nb::class_<Edit>(module, "Edit", "A change of a value during a run, as data or as a function.")
      .def_static(
          "make",
          [](const ValueRef& value, const std::string& op, const std::optional<FloatArray>& tensor,
             const std::optional<FloatArray>& second, double coefficient, double low, double high,
             double sigma, uint64_t seed, bool keep_norm) {
            Edit edit;
            edit.value = value;
            edit.op = unwrap(parse_edit_op(op));
            edit.tensor = tensor_of(tensor);
            edit.second = tensor_of(second);
            edit.coefficient = coefficient;
            edit.low = low;
            edit.high = high;
            edit.sigma = sigma;
            edit.seed = seed;
            edit.keep_norm = keep_norm;
            return edit;
          },
          nb::arg("value"), nb::arg("op"), nb::kw_only(), nb::arg("tensor").none() = nb::none(),
          nb::arg("second").none() = nb::none(), nb::arg("coefficient") = 1.0,
          nb::arg("low") = -std::numeric_limits<double>::infinity(),
          nb::arg("high") = std::numeric_limits<double>::infinity(), nb::arg("sigma") = 0.0,
          nb::arg("seed") = 0, nb::arg("keep_norm") = false,
          "An operation on a value; tensors are broadcast from the right against the part.")
      .def_static(
          "skip", [](int32_t from, int32_t to) { return skip_layers(from, to); }, nb::arg("first"),
          nb::arg("last"), "These layers, both included, hand the stream through.")
      .def_static(
          "function",
          [](const ValueRef& value, const nb::callable& function,
             const std::shared_ptr<Raised>& raised, const std::shared_ptr<Gate>& gate) {
            return on_live(value, callback_of(function, raised, gate));
          },
          nb::arg("value"), nb::arg("function"), nb::arg("raised"),
          nb::arg("gate").none() = nb::none(),
          nb::sig("def function(value: ValueRef, function: collections.abc.Callable[[typing.Any, "
                  "Where], object], raised: Raised, gate: Gate | None = None) -> Edit"),
          "function(array, where) on the live rows; what it raises is kept in `raised`; with a "
          "gate "
          "it is called where that waits for its value.")
      .def_prop_ro("value", [](const Edit& self) { return self.value; })
      .def_prop_ro("op", [](const Edit& self) { return name_of(self.op); })
      .def_ro("coefficient", &Edit::coefficient)
      .def(
          "with_qualifiers",
          [](const Edit& self, const std::optional<PositionsArgument>& seen_by,
             std::optional<bool> call, std::optional<bool> lift, std::optional<bool> renormalize,
             std::optional<int32_t> order, const std::optional<FloatArray>& probe,
             std::optional<double> threshold) {
            Edit edit = self;
            if (call) edit.scope = *call ? EditScope::kCall : EditScope::kCache;
            if (seen_by) edit.queries = positions_of(*seen_by);
            edit.lift = lift.value_or(self.lift);
            edit.renormalize = renormalize.value_or(self.renormalize);
            edit.order = order.value_or(self.order);
            if (probe) edit.probe = tensor_of(probe);
            edit.threshold = threshold.value_or(self.threshold);
            return edit;
          },
          nb::kw_only(), nb::arg("queries").none() = nb::none(),
          nb::arg("call").none() = nb::none(), nb::arg("lift").none() = nb::none(),
          nb::arg("renormalize").none() = nb::none(), nb::arg("order").none() = nb::none(),
          nb::arg("probe").none() = nb::none(), nb::arg("threshold").none() = nb::none(),
          "The same, with those qualifiers that are given.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__getstate__", [](const Edit& self) { return unwrap(to_json({self})); })
      .def("__setstate__",
           [](Edit& self, const std::string& json) {
             new (&self) Edit(unwrap(edits_from_json(json))[0]);
           })
      .def("__repr__", [](const Edit& self) {
        if (self.op == EditOp::kSkip) {
          return "Edit(skip " + std::to_string(self.skip_from) + " to " +
                 std::to_string(self.skip_to) + ")";
        }
        return "Edit(" + self.value.to_string() + ", " + std::string(name_of(self.op)) + ")";
      });
  nb::class_<Raised>(module, "Raised", "What callbacks of a run have raised.")
      .def(nb::init<>())
      .def_prop_ro("any", &Raised::any, "Whether there is one.")
      .def("rethrow", &Raised::rethrow, "Raises the first exception, if there is one.");
  nb::class_<Gate>(module, "Gate", "Which value functions wait for.")
      .def(nb::init<>())
      .def(
          "wait_for",
          [](Gate& self, const ValueRef& value) {
            self.wanted = {value.id, static_cast<size_t>(std::max(value.layers.begin, 0))};
          },
          nb::arg("value"))
      .def("close", [](Gate& self) { self.wanted.reset(); });
  nb::class_<LiveWhere>(module, "Where", "Where in the run a callback is.")
      .def_ro("name", &LiveWhere::name, "The value's name, such as 'layers.3.layer_output'.")
      .def_ro("layer", &LiveWhere::layer)
      .def_ro("position", &LiveWhere::position, "Absolute, of the array's first row.")
      .def_ro("rows", &LiveWhere::rows)
      .def_ro("epoch", &LiveWhere::epoch, "How often these positions were run before.")
      .def_ro("tokens", &LiveWhere::tokens, "Of the sequence, up to the end of these rows.")
      .def(
          "end_run", [](LiveWhere& self) { self.cancel = true; },
          "What is left of the run is left out: a trace raises CancelledError, an answer finishes "
          "with 'cancelled'.");
}

}  // namespace

Tensor tensor_from(const FloatArray& array) {
  std::vector<uint64_t> shape;
  for (size_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(array.shape(axis));
  return Tensor::of(std::move(shape),
                    std::vector<float>(array.data(), array.data() + array.size()));
}

nb::object array_from(Tensor tensor) {
  const std::vector<size_t> shape(tensor.shape.begin(), tensor.shape.end());
  return tensor.type == TensorType::kF32 ? nb::cast(array_of(std::move(tensor.floats), shape))
                                         : nb::cast(array_of(std::move(tensor.integers), shape));
}

void bind_edits(nb::module_& module) {
  bind_edit(module);
  module.def(
      "edits_to_json",
      [](const std::vector<Edit>& edits) {
        Edits list;
        for (const Edit& edit : edits) list += edit;
        return unwrap(to_json(list));
      },
      nb::arg("edits"), "The format that files, the command and servers share.");
  module.def(
      "edits_from_json",
      [](const std::string& json, const std::optional<std::string>& folder_of) {
        const Edits edits =
            unwrap(edits_from_json(json, folder_of ? TensorFiles::kAllowed : TensorFiles::kRefused,
                                   folder_of.value_or("")));
        return std::vector<Edit>(edits.begin(), edits.end());
      },
      nb::arg("json"), nb::arg("file").none() = nb::none(),
      "From that format. Tensors in files are read where `file` says which file the text is of; "
      "'' is one here.");
  module.def(
      "edits_from_line",
      [](const std::string& line, bool files) {
        const Edits edits =
            unwrap(edits_from_line(line, files ? TensorFiles::kAllowed : TensorFiles::kRefused));
        return std::vector<Edit>(edits.begin(), edits.end());
      },
      nb::arg("line"), nb::kw_only(), nb::arg("files") = true,
      "From one line such as 'layers[12].layer_output += 4 * joy.gguf @ decode'.");
  module.def(
      "load_tensors",
      [](const std::filesystem::path& path) {
        nb::dict dict;
        for (auto& [name, tensor] : unwrap(load_tensors(path)))
          dict[nb::str(name.c_str())] = array_from(std::move(tensor));
        return nb::typed<nb::dict, nb::str, nb::any>(dict);
      },
      nb::arg("path"),
      nb::sig("def load_tensors(path: str | os.PathLike[str]) -> dict[str, "
              "numpy.typing.NDArray[typing.Any]]"),
      "All tensors of a safetensors or GGUF file, such as control vectors, as float32 arrays.");
  module.def(
      "save_tensors",
      [](const std::filesystem::path& path, const std::map<std::string, FloatArray>& tensors) {
        std::vector<NamedTensor> named;
        for (const auto& [name, array] : tensors) {
          std::vector<uint64_t> shape;
          for (size_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(array.shape(axis));
          named.push_back({name, TensorType::kF32, std::move(shape), array.data()});
        }
        unwrap(save_tensors(path, named));
      },
      nb::arg("path"), nb::arg("tensors"),
      nb::sig("def save_tensors(path: str | os.PathLike[str], tensors: "
              "collections.abc.Mapping[str, numpy.typing.NDArray[numpy.float32]]) -> None"),
      "Writes a safetensors file of float32 arrays.");
}

}  // namespace phidias::python
