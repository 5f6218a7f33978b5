// The named values: handles as plain data, and which of them a model has.
#include "phidias/values.h"

#include <nanobind/operators.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "phidias/model.h"
#include "phidias/trace.h"

namespace phidias::python {
namespace {

using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;
using PositionsArgument = std::variant<std::string, std::vector<int64_t>>;

const char* module_name(Module module) {
  switch (module) {
    case Module::kModel:
      return "model";
    case Module::kLayer:
      return "layers";
    case Module::kAttention:
      return "layers.self_attn";
    case Module::kMlp:
      return "layers.mlp";
    case Module::kVision:
      return "vision";
    case Module::kVisionLayer:
      return "vision.layers";
  }
  return "";
}

ValueRef select(const ValueRef& self, const std::optional<PositionsArgument>& at,
                const std::optional<std::vector<int32_t>>& heads,
                const std::optional<PositionsArgument>& keys,
                const std::optional<std::vector<int32_t>>& channels) {
  ValueRef part = self;
  if (at) part.selection.at = positions_of(*at);
  if (heads) part.selection.heads = *heads;
  if (keys) part.selection.keys = positions_of(*keys);
  if (channels) part.selection.channels = *channels;
  return part;
}

}  // namespace

Positions positions_of(const std::variant<std::string, std::vector<int64_t>>& argument) {
  if (const auto* text = std::get_if<std::string>(&argument))
    return unwrap(Positions::parse(*text));
  return Positions(std::get<std::vector<int64_t>>(argument));
}

void bind_values(nb::module_& module) {
  nb::class_<ValueInfo>(module, "ValueInfo", "What a value is.")
      .def_ro("name", &ValueInfo::name)
      .def_prop_ro(
          "module", [](const ValueInfo& self) { return module_name(self.module); },
          "'model', 'layers', 'layers.self_attn', 'layers.mlp', 'vision' or 'vision.layers'.")
      .def_prop_ro(
          "layout", [](const ValueInfo& self) { return name_of(self.layout); },
          "The name of its layout, such as 'Residual'.")
      .def_prop_ro(
          "axes",
          [](const ValueInfo& self) {
            const auto axes = axes_of(self.layout);
            return std::vector<std::string_view>(axes.begin(), axes.end());
          },
          "The names of its axes, outermost first.")
      .def_ro("standard", &ValueInfo::standard, "One of the 25 standard values.")
      .def_ro("writable", &ValueInfo::writable, "It can be edited.")
      .def_ro("native", &ValueInfo::native, "Where transformers has it.")
      .def_ro("meaning", &ValueInfo::meaning, "One line.");
  module.def(
      "value_infos",
      [] {
        const auto infos = value_infos();
        return std::vector<ValueInfo>(infos.begin(), infos.end());
      },
      "Every value, in the order in which a pass meets them.");

  nb::class_<ValueRef>(module, "ValueRef",
                       "A value, or one value of several layers, or a part of it: plain data.")
      .def_static(
          "parse", [](const std::string& path) { return unwrap(parse_value(path)); },
          nb::arg("path"),
          "From a path such as 'layers[3].self_attn.attention_queries[head=7, at=last]', a native "
          "module's name or a TransformerLens hook.")
      .def_prop_ro("info", [](const ValueRef& self) { return info_of(self.id); })
      .def_prop_ro(
          "layer",
          [](const ValueRef& self) -> std::optional<int32_t> {
            if (!has_layers(info_of(self.id).module) || !self.layers.single) return {};
            return self.layers.begin;
          },
          "The layer, where it is of one.")
      .def_prop_ro(
          "many_layers",
          [](const ValueRef& self) {
            return has_layers(info_of(self.id).module) && !self.layers.single;
          },
          "It is of a range of layers.")
      .def_prop_ro(
          "is_part", [](const ValueRef& self) { return self.selection != Selection(); },
          "Something of it is selected.")
      .def_prop_ro(
          "selects_within_rows",
          [](const ValueRef& self) {
            return !self.selection.heads.empty() || !self.selection.channels.empty() ||
                   self.selection.keys != Positions();
          },
          "Heads, keys or channels are selected.")
      .def_prop_ro(
          "heads", [](const ValueRef& self) { return self.selection.heads; },
          "The heads that are selected; none: all.")
      .def(
          "on_layer",
          [](const ValueRef& self, int32_t layer) {
            ValueRef one = self;
            one.layers = {true, layer};
            return one;
          },
          nb::arg("layer"), "The same of one layer.")
      .def("select", &select, nb::kw_only(), nb::arg("at").none() = nb::none(),
           nb::arg("heads").none() = nb::none(), nb::arg("keys").none() = nb::none(),
           nb::arg("channels").none() = nb::none(),
           "The part of it at these positions (a list, or text such as 'last', '2:5', 'decode'), "
           "heads, keys and channels.")
      .def("__str__", &ValueRef::to_string)
      .def("__repr__", [](const ValueRef& self) { return "ValueRef('" + self.to_string() + "')"; })
      .def("__getstate__", &ValueRef::to_string)
      .def("__setstate__",
           [](ValueRef& self, const std::string& path) {
             new (&self) ValueRef(unwrap(parse_value(path)));
           })
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"));

  nb::class_<Support>(module, "Support", "Whether a model has a value.")
      .def_ro("value", &Support::value)
      .def_ro("name", &Support::name, "Dotted, such as 'layers.mlp.mlp_neurons'.")
      .def_ro("extents", &Support::extents, "Of each axis: '1', 'seq', '3072'.")
      .def_ro("missing", &Support::missing, "Why it is not there, or None.");
  module.def(
      "support", [](const std::shared_ptr<const Model>& model) { return support(*model); },
      nb::arg("model"));
  module.def(
      "support_of_path", [](const std::filesystem::path& path) { return unwrap(support(path)); },
      nb::arg("path"), ReleaseGil(),
      nb::sig("def support_of_path(path: str | os.PathLike[str]) -> list[Support]"),
      "The same of a checkpoint whose weights are not read.");
  module.def(
      "describe", [](const std::shared_ptr<const Model>& model) { return describe(*model); },
      nb::arg("model"));
  module.def(
      "describe_path", [](const std::filesystem::path& path) { return unwrap(describe(path)); },
      nb::arg("path"), ReleaseGil(),
      nb::sig("def describe_path(path: str | os.PathLike[str]) -> str"),
      "The same of a checkpoint whose weights are not read.");
}

}  // namespace phidias::python
