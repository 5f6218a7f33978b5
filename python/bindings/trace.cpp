// Runs with some of their values kept and some changed.
#include "phidias/trace.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "images.h"
#include "live.h"
#include "shared_engine.h"

namespace phidias::python {
namespace {

// A trace with the engine that it runs on.
struct SharedTrace {
  std::shared_ptr<SharedEngine> engine;
  Trace trace;
};

nb::list entries(Traced& traced) {
  nb::list list;
  for (Traced::Entry& entry : traced.entries) {
    list.append(
        nb::make_tuple(entry.read, entry.name, entry.layer, array_from(std::move(entry.tensor))));
  }
  return list;
}

}  // namespace

Read::Moment moment_of(const std::string& name) {
  if (name == "after") return Read::Moment::kAfter;
  if (name == "before") return Read::Moment::kBefore;
  if (name == "gradient") return Read::Moment::kGradient;
  throw nb::value_error("a moment is 'after', 'before' or 'gradient'");
}

void bind_trace(nb::module_& module) {
  nb::class_<Metric>(module, "Metric", "A number made of what a run gives, to be differentiated.")
      .def_static(
          "from_json",
          [](const std::string& json, const std::shared_ptr<const Model>& model) {
            return unwrap(metric_from_json(json, *model));
          },
          nb::arg("json"), nb::arg("model"),
          "From a JSON object, or a list of such: their sum. Tokens are ids, or strings of one "
          "token.");
  nb::class_<Traced>(module, "Traced", "What a run has brought.")
      .def("take_entries", &entries,
           nb::sig("def take_entries(self) -> list[tuple[int, str, int, "
                   "numpy.typing.NDArray[typing.Any]]]"),
           "Once: (read, name, layer, array) of every tensor, by read, then by layer.")
      .def_prop_ro(
          "rows",
          [](const Traced& self) {
            std::vector<size_t> rows;
            for (const EditReport& report : self.edits) rows.push_back(report.rows);
            return rows;
          },
          "Positions that each edit touched.")
      .def_ro("all_hidden", &Traced::all_hidden,
              "Rows of scores whose every key edits have hidden.")
      .def_ro("tokens", &Traced::tokens, "Generated.")
      .def_ro("metric", &Traced::metric, "The metric's value, in a run with gradients.")
      .def_ro("epochs", &Traced::epochs, "2: it was run again at LongRoPE's switch.");

  nb::class_<TracePlan::Entry>(module, "PlanEntry", "A tensor that a run would keep.")
      .def_ro("name", &TracePlan::Entry::name)
      .def_ro("shape", &TracePlan::Entry::shape)
      .def_ro("bytes", &TracePlan::Entry::bytes)
      .def("__repr__", [](const TracePlan::Entry& self) {
        std::string shape;
        for (const uint64_t extent : self.shape)
          shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
        return "PlanEntry('" + self.name + "', [" + shape + "], " + std::to_string(self.bytes) +
               " bytes)";
      });
  nb::class_<TracePlan>(module, "TracePlan", "What a run would take, without running it.")
      .def_ro("entries", &TracePlan::entries)
      .def_ro("bytes", &TracePlan::bytes, "Of all that is kept.")
      .def_ro("explicit_layers", &TracePlan::explicit_layers,
              "Layers whose attention leaves the fast path for this request.")
      .def("__repr__", [](const TracePlan& self) {
        return "TracePlan(" + std::to_string(self.entries.size()) + " arrays, " +
               std::to_string(self.bytes) + " bytes, " +
               std::to_string(self.explicit_layers.size()) + " explicit layers)";
      });

  nb::class_<SharedTrace>(module, "Trace", "One run of one sequence.")
      .def_static(
          "create",
          [](const std::shared_ptr<SharedEngine>& engine, const std::vector<TokenId>& ids,
             uint32_t generate, uint32_t chunk, const std::string& rope_switch, uint64_t max_bytes,
             const std::vector<Image>& images) {
            TraceOptions options;
            options.images = handles_of(images);
            options.generate = generate;
            options.chunk = chunk;
            options.rope_switch = unwrap(rope_switch_from_name(rope_switch));
            options.max_bytes = max_bytes;
            return engine->use([&](Engine& used) {
              return std::make_unique<SharedTrace>(SharedTrace{engine, Trace(used, ids, options)});
            });
          },
          nb::arg("engine"), nb::arg("ids"), nb::kw_only(), nb::arg("generate") = 0,
          nb::arg("chunk") = 0, nb::arg("rope_switch") = "reprefill",
          nb::arg("max_bytes") = TraceOptions{}.max_bytes, nb::arg("images") = std::vector<Image>())
      .def(
          "read",
          [](SharedTrace& self, const ValueRef& value, const std::string& moment) {
            return self.trace.read(Read{value, moment_of(moment)});
          },
          nb::arg("value"), nb::kw_only(), nb::arg("moment") = "after",
          "Keeps a value as it is 'after' its edits or 'before' them, or the 'gradient' of the "
          "metric. Its number.")
      .def(
          "metric", [](SharedTrace& self, const Metric& metric) { self.trace.metric(metric); },
          nb::arg("metric"), "What gradients are of.")
      .def(
          "edit", [](SharedTrace& self, const Edit& edit) { self.trace.edit(edit); },
          nb::arg("edit"))
      .def(
          "plan",
          [](SharedTrace& self) {
            return self.engine->use([&](Engine&) { return unwrap(self.trace.plan()); });
          },
          "What run() would take.")
      .def(
          "run",
          [](SharedTrace& self) {
            return self.engine->work([&](Engine&) { return self.trace.run(); });
          },
          "Runs it.");
}

}  // namespace phidias::python
