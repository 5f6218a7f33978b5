// What is made of runs: lenses, attribution, patching, heads, control vectors.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "live.h"
#include "phidias/attribution.h"
#include "phidias/heads.h"
#include "phidias/lens.h"
#include "phidias/patching.h"
#include "phidias/steering.h"
#include "phidias/variations.h"
#include "shared_engine.h"

namespace phidias::python {
namespace {

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Engines = std::shared_ptr<SharedEngine>;
using Ids = std::vector<TokenId>;

Edits edits_of(const std::vector<Edit>& list) {
  Edits edits;
  for (const Edit& edit : list) edits += edit;
  return edits;
}

nb::object project(SharedEngine& shared, const FloatArray& residual) {
  const std::span<const float> rows(residual.data(), residual.size());
  return array_from(shared.work([&](Engine& engine) { return project_on_vocab(engine, rows); }));
}

// (ids, probabilities), each [layers, positions, top].
nb::tuple lens(SharedEngine& shared, const Ids& ids, size_t top, const std::vector<Edit>& edits) {
  LensOptions options;
  options.top = top;
  options.edits = edits_of(edits);
  const Lens found = shared.work([&](Engine& engine) { return logit_lens(engine, ids, options); });
  std::vector<int64_t> best;
  std::vector<float> probabilities;
  for (const std::vector<TopToken>& cell : found.best) {
    for (const TopToken& token : cell) {
      best.push_back(token.id);
      probabilities.push_back(token.probability);
    }
  }
  const size_t kept = found.best.empty() ? 0 : found.best.front().size();
  const std::vector<size_t> shape{found.layers, found.positions.size(), kept};
  return nb::make_tuple(array_of(std::move(best), shape),
                        array_of(std::move(probabilities), shape));
}

SweepOptions sweep_options(const std::string& axis, uint32_t window, const std::vector<Edit>& edits,
                           Progress& told) {
  SweepOptions options;
  options.axis = unwrap(sweep_axis_from_name(axis));
  options.window = window;
  options.edits = edits_of(edits);
  options.progress = [&told](size_t done, size_t total) { return told(done, total); };
  return options;
}

// (metric [layers, columns], that of the clean text, that of the run that is changed).
nb::tuple table_of(Sweep sweep) {
  const std::vector<size_t> shape{sweep.layers, sweep.columns};
  return nb::make_tuple(array_of(std::move(sweep.metric), shape), sweep.clean, sweep.base);
}

ValueId value_of_layers(const std::string& name) {
  return unwrap(parse_value("layers[*]." + name)).id;
}

nb::tuple patched(SharedEngine& shared, const Ids& clean, const Ids& corrupt,
                  const std::string& value, const Metric& metric, const std::string& axis,
                  uint32_t window, const std::vector<Edit>& edits,
                  const ProgressFunction& progress) {
  Progress told(progress);
  const SweepOptions options = sweep_options(axis, window, edits, told);
  const ValueId id = value_of_layers(value);
  return table_of(shared.work(told, [&](Engine& engine) {
    return patch_sweep(engine, clean, corrupt, id, metric, options);
  }));
}

nb::tuple ablated(SharedEngine& shared, const Ids& ids, const std::string& value,
                  const std::string& ablation, const Metric& metric, const std::string& axis,
                  uint32_t window, const std::vector<Edit>& edits,
                  const ProgressFunction& progress) {
  Progress told(progress);
  const SweepOptions options = sweep_options(axis, window, edits, told);
  const ValueId id = value_of_layers(value);
  const Ablation kind = unwrap(ablation_from_name(ablation));
  return table_of(shared.work(told, [&](Engine& engine) {
    return ablation_sweep(engine, ids, id, kind, metric, options);
  }));
}

nb::tuple varied(SharedEngine& shared, const Ids& ids,
                 const std::vector<std::vector<Edit>>& variations, const Metric& metric,
                 const std::vector<Edit>& edits, const ProgressFunction& progress) {
  std::vector<Edits> lists;
  for (const std::vector<Edit>& list : variations) lists.push_back(edits_of(list));
  Progress told(progress);
  VariationOptions options;
  options.edits = edits_of(edits);
  options.progress = [&](size_t done, size_t total) { return told(done, total); };
  Variations found = shared.work(
      told, [&](Engine& engine) { return run_variations(engine, ids, lists, metric, options); });
  const std::vector<size_t> shape{found.metric.size()};
  return nb::make_tuple(array_of(std::move(found.metric), shape), found.base);
}

AttributionMethod method_of(const std::string& name) {
  if (name == "patching") return AttributionMethod::kPatching;
  if (name == "integrated") return AttributionMethod::kIntegrated;
  if (name == "star") return AttributionMethod::kStar;
  throw nb::value_error("a method is 'patching', 'integrated' or 'star'");
}

nb::tuple attributions(SharedEngine& shared, const Ids& clean, const Ids& corrupt,
                       const Metric& metric, const std::vector<ValueRef>& values,
                       const std::string& method, uint32_t steps, bool drop,
                       const ProgressFunction& progress) {
  Progress told(progress);
  AttributionOptions options;
  options.progress = [&told](size_t done, size_t all) { return told(done, all); };
  options.method = method_of(method);
  options.steps = steps;
  options.drop = drop;
  Attribution found = shared.work(told, [&](Engine& engine) {
    return attribute(engine, clean, corrupt, metric, values, options);
  });
  nb::list entries;
  for (Traced::Entry& entry : found.entries)
    entries.append(nb::make_tuple(entry.read, array_from(std::move(entry.tensor))));
  return nb::make_tuple(entries, found.clean, found.corrupt);
}

nb::tuple direct(SharedEngine& shared, const Ids& ids, TokenId token, std::optional<TokenId> other,
                 bool by_heads) {
  const DirectAttribution found = shared.work(
      [&](Engine& engine) { return direct_attribution(engine, ids, token, other, by_heads); });
  std::vector<std::pair<std::string, double>> parts;
  for (const DirectAttribution::Part& part : found.parts) parts.emplace_back(part.name, part.value);
  return nb::make_tuple(parts, found.total, found.logit);
}

void bind_control_vectors(nb::module_& module) {
  nb::class_<ControlVector>(module, "ControlVector",
                            "One direction of the residual stream for each layer that has one.")
      .def(
          "__init__",
          [](ControlVector* self, std::map<uint32_t, std::vector<float>> directions,
             const std::string& model_hint) {
            new (self) ControlVector{std::move(directions), model_hint};
          },
          nb::arg("directions"), nb::kw_only(), nb::arg("model_hint") = "",
          "From {layer: [hidden_size]}.")
      .def_static(
          "load", [](const std::string& path) { return unwrap(load_control_vector(path)); },
          nb::arg("path"), "A GGUF file as repeng writes it and llama.cpp loads it.")
      .def(
          "save",
          [](const ControlVector& self, const std::string& path) {
            unwrap(save_control_vector(path, self));
          },
          nb::arg("path"), "Writes such a file; it has no place for a direction of layer 0.")
      .def_ro("model_hint", &ControlVector::model_hint, "The model type.")
      .def_prop_ro(
          "layers",
          [](const ControlVector& self) {
            std::vector<uint32_t> layers;
            for (const auto& [layer, direction] : self.directions) layers.push_back(layer);
            return layers;
          },
          "That have a direction, ascending.")
      .def(
          "__getitem__",
          [](const ControlVector& self, uint32_t layer) {
            const auto found = self.directions.find(layer);
            if (found == self.directions.end())
              throw nb::key_error(("layer " + std::to_string(layer) + " has no direction").c_str());
            std::vector<float> copy = found->second;
            const size_t width = copy.size();
            return array_of(std::move(copy), {width});
          },
          nb::arg("layer"), "Its direction, [hidden_size].")
      .def("__len__", [](const ControlVector& self) { return self.directions.size(); })
      .def(
          "edits",
          [](const ControlVector& self, double coefficient,
             const std::variant<std::string, std::vector<int64_t>>& at, bool keep_norm) {
            const Edits edits = steer(self, coefficient, positions_of(at), keep_norm);
            return std::vector<Edit>(edits.begin(), edits.end());
          },
          nb::arg("coefficient"), nb::kw_only(), nb::arg("at") = "all",
          nb::arg("keep_norm") = false);
  module.def(
      "contrast",
      [](SharedEngine& shared, const std::vector<std::pair<Ids, Ids>>& pairs, bool mean) {
        std::vector<ContrastPair> contrasts;
        for (const auto& [positive, negative] : pairs) contrasts.push_back({positive, negative});
        return shared.work([&](Engine& engine) {
          return contrast(engine, contrasts,
                          mean ? ContrastMethod::kMean : ContrastMethod::kPcaDiff);
        });
      },
      nb::arg("engine"), nb::arg("pairs"), nb::kw_only(), nb::arg("mean") = false,
      "A control vector of pairs of texts, (more, less).");
}

}  // namespace

void bind_analysis(nb::module_& module) {
  bind_control_vectors(module);
  module.def("project_on_vocab", &project, nb::arg("engine"), nb::arg("residual"),
             nb::sig("def project_on_vocab(engine: Engine, residual: "
                     "numpy.typing.NDArray[numpy.float32]) -> numpy.typing.NDArray[numpy.float32]"),
             "Logits [rows, vocab_size] of rows of the residual stream.");
  module.def("logit_lens", &lens, nb::arg("engine"), nb::arg("ids"), nb::kw_only(),
             nb::arg("top") = 5, nb::arg("edits") = std::vector<Edit>(),
             nb::sig("def logit_lens(engine: Engine, ids: collections.abc.Sequence[int], *, top: "
                     "int = 5, edits: collections.abc.Sequence[Edit] = ()) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], "
                     "numpy.typing.NDArray[numpy.float32]]"),
             "(ids, probabilities) of the likeliest tokens, each [layers, positions, top].");
  module.def("patch_sweep", &patched, nb::arg("engine"), nb::arg("clean"), nb::arg("corrupt"),
             nb::arg("value"), nb::arg("metric"), nb::kw_only(), nb::arg("axis") = "positions",
             nb::arg("window") = 1, nb::arg("edits") = std::vector<Edit>(),
             nb::arg("progress").none() = nb::none(),
             nb::sig("def patch_sweep(engine: Engine, clean: collections.abc.Sequence[int], "
                     "corrupt: collections.abc.Sequence[int], value: str, metric: Metric, *, "
                     "axis: str = 'positions', window: int = 1, edits: "
                     "collections.abc.Sequence[Edit] = (), "
                     "progress: collections.abc.Callable[[int, int], bool] | None = None) -> "
                     "tuple[numpy.typing.NDArray[numpy.float64], float, float]"),
             "(metric [layers, columns], that of the clean text, that of the corrupt one).");
  module.def("ablation_sweep", &ablated, nb::arg("engine"), nb::arg("ids"), nb::arg("value"),
             nb::arg("ablation"), nb::arg("metric"), nb::kw_only(), nb::arg("axis") = "positions",
             nb::arg("window") = 1, nb::arg("edits") = std::vector<Edit>(),
             nb::arg("progress").none() = nb::none(),
             nb::sig("def ablation_sweep(engine: Engine, ids: collections.abc.Sequence[int], "
                     "value: str, ablation: str, metric: Metric, *, "
                     "axis: str = 'positions', window: int = 1, edits: "
                     "collections.abc.Sequence[Edit] = (), "
                     "progress: collections.abc.Callable[[int, int], bool] | None = None) -> "
                     "tuple[numpy.typing.NDArray[numpy.float64], float, float]"),
             "(metric [layers, columns], that of the text as it is, that with `edits` alone).");
  module.def("run_variations", &varied, nb::arg("engine"), nb::arg("ids"), nb::arg("variations"),
             nb::arg("metric"), nb::kw_only(), nb::arg("edits") = std::vector<Edit>(),
             nb::arg("progress").none() = nb::none(),
             nb::sig("def run_variations(engine: Engine, ids: collections.abc.Sequence[int], "
                     "variations: collections.abc.Sequence[collections.abc.Sequence[Edit]], "
                     "metric: Metric, *, edits: collections.abc.Sequence[Edit] = (), "
                     "progress: collections.abc.Callable[[int, int], bool] | None = None) -> "
                     "tuple[numpy.typing.NDArray[numpy.float64], float]"),
             "(metric of each variation, that without one).");
  module.def("attribute", &attributions, nb::arg("engine"), nb::arg("clean"), nb::arg("corrupt"),
             nb::arg("metric"), nb::arg("values"), nb::kw_only(), nb::arg("method") = "patching",
             nb::arg("steps") = 16, nb::arg("drop") = false,
             nb::arg("progress").none() = nb::none(),
             nb::sig("def attribute(engine: Engine, clean: collections.abc.Sequence[int], corrupt: "
                     "collections.abc.Sequence[int], metric: Metric, values: "
                     "collections.abc.Sequence[ValueRef], *, method: str = 'patching', steps: int "
                     "= 16, drop: bool = False, progress: collections.abc.Callable[[int, int], "
                     "bool] | None = None) -> tuple[list[tuple[int, "
                     "numpy.typing.NDArray[numpy.float32]]], float, float]"),
             "([(value, array)] by value and layer, the clean text's metric, the corrupt one's).");
  module.def("direct_attribution", &direct, nb::arg("engine"), nb::arg("ids"), nb::arg("token"),
             nb::arg("other").none() = nb::none(), nb::kw_only(), nb::arg("by_heads") = true,
             nb::sig("def direct_attribution(engine: Engine, ids: collections.abc.Sequence[int], "
                     "token: int, other: int | None = None, *, by_heads: bool = True) -> "
                     "tuple[list[tuple[str, float]], float, float]"),
             "([(part, share)], their sum, the model's own number).");
  module.def(
      "head_scores",
      [](SharedEngine& shared, const Ids& ids, const std::string& score) {
        const HeadScore kind = unwrap(head_score_from_name(score));
        return array_from(
            shared.work([&](Engine& engine) { return head_scores(engine, ids, kind); }));
      },
      nb::arg("engine"), nb::arg("ids"), nb::arg("score"),
      nb::sig("def head_scores(engine: Engine, ids: collections.abc.Sequence[int], score: str) -> "
              "numpy.typing.NDArray[numpy.float32]"),
      "Mean attention of a kind, [layers, num_heads].");
}

}  // namespace phidias::python
