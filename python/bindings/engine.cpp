// Engines, sequences, steps; and perplexity, which is steps and a sum.
#include "phidias/engine.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "images.h"
#include "phidias/perplexity.h"
#include "shared_engine.h"

namespace phidias::python {
namespace {

// A sequence of an engine, closed when Python lets go of it.
class Sequence {
 public:
  Sequence(std::shared_ptr<SharedEngine> engine, SequenceId id)
      : engine_(std::move(engine)), id_(id) {}
  Sequence(Sequence&& other) noexcept
      : engine_(std::move(other.engine_)), id_(std::exchange(other.id_, 0)) {}
  Sequence& operator=(Sequence&&) = delete;
  ~Sequence() {
    if (engine_ == nullptr || id_ == 0) return;
    Engine& engine = const_cast<Engine&>(engine_->constant());
    engine_->retire(
        std::shared_ptr<void>(nullptr, [&engine, id = id_](std::nullptr_t) { engine.close(id); }));
  }

  SharedEngine& engine() const { return *engine_; }
  const std::shared_ptr<SharedEngine>& shared_engine() const { return engine_; }
  SequenceId id() const { return id_; }

 private:
  std::shared_ptr<SharedEngine> engine_;
  SequenceId id_;
};

using Floats = nb::ndarray<nb::numpy, float>;
using Runs = std::vector<std::pair<const Sequence*, std::vector<TokenId>>>;

// One step of any number of sequences; an array [wanted rows, vocab] for each.
std::vector<Floats> step(SharedEngine& shared, const Runs& runs, bool every_row) {
  const size_t vocab = shared.constant().vocab();
  std::vector<std::vector<float>> logits(runs.size());
  shared.work([&](Engine& engine) -> Status {
    std::vector<Row> rows;
    std::vector<size_t> run_of_row;
    for (size_t r = 0; r < runs.size(); ++r) {
      const auto& [sequence, tokens] = runs[r];
      if (&sequence->engine() != &shared) {
        return Error{Code::kInvalidArgument, "a sequence of another engine was given to step", {}};
      }
      uint32_t position = engine.length(sequence->id());
      for (size_t i = 0; i < tokens.size(); ++i) {
        rows.push_back(
            {tokens[i], sequence->id(), position++, every_row || i + 1 == tokens.size()});
        run_of_row.push_back(r);
      }
      logits[r].reserve((every_row ? tokens.size() : 1) * vocab);
    }
    return engine.step(rows, [&](size_t row, std::span<const float> values) {
      logits[run_of_row[row]].insert(logits[run_of_row[row]].end(), values.begin(), values.end());
    });
  });
  std::vector<Floats> arrays;
  for (std::vector<float>& values : logits) {
    const size_t rows = values.size() / vocab;
    arrays.push_back(array_of(std::move(values), {rows, vocab}));
  }
  return arrays;
}

bool wants_every_row(const std::string& outputs) {
  if (outputs != "last" && outputs != "all") throw nb::value_error("outputs is 'last' or 'all'");
  return outputs == "all";
}

SequenceOptions sequence_options(const std::string& rope_switch, uint32_t prompt_tokens,
                                 const std::vector<Image>& images) {
  return {unwrap(rope_switch_from_name(rope_switch)), prompt_tokens, handles_of(images)};
}

void bind_sequence(nb::module_& module) {
  nb::class_<Sequence>(module, "Sequence",
                       "Tokens and their keys and values in an engine's cache. Given back when it "
                       "is collected.")
      .def(
          "append",
          [](const Sequence& self, const std::vector<TokenId>& ids, const std::string& outputs) {
            if (ids.empty()) throw nb::value_error("there are no ids to run");
            const bool every_row = wants_every_row(outputs);
            const nb::object logits =
                nb::cast(std::move(step(self.engine(), {{&self, ids}}, every_row).front()));
            return every_row ? logits : nb::object(logits[0]);
          },
          nb::arg("ids"), nb::kw_only(), nb::arg("outputs") = "last",
          nb::sig("def append(self, ids: collections.abc.Sequence[int], *, outputs: str = 'last') "
                  "-> numpy.typing.NDArray[numpy.float32]"),
          "Runs the ids and returns the logits after the last, [vocab], or with outputs='all' "
          "after each, [ids, vocab].")
      .def(
          "fork",
          [](const Sequence& self) {
            const SequenceId id =
                self.engine().use([&](Engine& engine) { return unwrap(engine.fork(self.id())); });
            return Sequence(self.shared_engine(), id);
          },
          "A new sequence with the same tokens; full cache pages are shared.")
      .def(
          "truncate",
          [](const Sequence& self, uint32_t length) {
            self.engine().use([&](Engine& engine) { unwrap(engine.truncate(self.id(), length)); });
          },
          nb::arg("length"), "Forgets all positions from `length` on.")
      .def("__len__",
           [](const Sequence& self) {
             return self.engine().use([&](Engine& engine) { return engine.length(self.id()); });
           })
      .def_prop_ro(
          "tokens",
          [](const Sequence& self) {
            return self.engine().use([&](Engine& engine) {
              const auto tokens = engine.tokens(self.id());
              return std::vector<TokenId>(tokens.begin(), tokens.end());
            });
          },
          "The ids that it holds.")
      .def("__repr__",
           [](const Sequence& self) { return "Sequence(" + std::to_string(self.id()) + ")"; });
}

Dict memory_dict(const MemoryPlan& memory) {
  Dict dict;
  dict["weights"] = memory.weights;
  dict["cache_per_position"] = memory.cache_per_position;
  dict["cache_at_context"] = memory.cache_at_context;
  dict["cache_budget"] = memory.cache_budget;
  dict["step_buffers"] = memory.step_buffers;
  dict["largest_context"] = memory.largest_context;
  return dict;
}

Dict options_dict(const EngineOptions& options) {
  Dict dict;
  dict["threads"] = options.threads;
  dict["numerics"] = std::string(name_of(options.numerics));
  dict["kv"] = options.kv;
  dict["context"] = options.context;
  dict["cache_budget"] = options.cache_budget;
  dict["step_rows"] = options.step_rows;
  dict["page_positions"] = options.page_positions;
  dict["isa"] = options.isa;
  return dict;
}

Dict score(SharedEngine& shared, const std::vector<TokenId>& ids, uint32_t window,
           const std::string& save, const std::string& against, const std::string& rope_switch,
           const ProgressFunction& progress) {
  PerplexityOptions options;
  options.window = window;
  options.rope_switch = unwrap(rope_switch_from_name(rope_switch));
  options.save_log_probabilities = save;
  options.against = against;
  Progress told(progress);
  options.progress = [&](size_t done, size_t total) { return told(done, total); };
  const Perplexity found =
      shared.work(told, [&](Engine& engine) { return perplexity(engine, ids, options); });
  Dict dict;
  dict["windows"] = found.windows;
  dict["tokens"] = found.tokens;
  dict["perplexity"] = found.perplexity;
  if (found.kl_mean) {
    dict["kl_mean"] = *found.kl_mean;
    dict["kl_p99"] = *found.kl_p99;
    dict["same_best"] = *found.same_best;
  }
  return dict;
}

}  // namespace

EngineOptions engine_options(size_t threads, const std::string& numerics, const std::string& kv,
                             uint32_t context, uint64_t cache_budget, uint32_t step_rows,
                             uint32_t page_positions, const std::string& isa) {
  EngineOptions options;
  options.threads = threads;
  options.numerics = unwrap(numerics_from_name(numerics));
  options.kv = kv;
  options.context = context;
  options.cache_budget = cache_budget;
  options.step_rows = step_rows;
  options.page_positions = page_positions;
  options.isa = isa;
  return options;
}

void bind_engine(nb::module_& module) {
  bind_sequence(module);
  nb::class_<SharedEngine>(module, "Engine",
                           "Runs sequences of a model: any mixture of prompts and single steps in "
                           "a call. Threads that use it at once take turns; the interpreter's lock "
                           "is not held while it works.")
      .def_static(
          "create",
          [](const std::shared_ptr<const Model>& model, size_t threads, const std::string& numerics,
             const std::string& kv, uint32_t context, uint64_t cache_budget, uint32_t step_rows,
             uint32_t page_positions, const std::string& isa) {
            return std::make_shared<SharedEngine>(unwrap(
                Engine::create(model, engine_options(threads, numerics, kv, context, cache_budget,
                                                     step_rows, page_positions, isa))));
          },
          nb::arg("model"), nb::kw_only(), nb::arg("threads") = 0, nb::arg("numerics") = "fast",
          nb::arg("kv") = "", nb::arg("context") = 0, nb::arg("cache_budget") = 0,
          nb::arg("step_rows") = 512, nb::arg("page_positions") = 64, nb::arg("isa") = "",
          nb::call_guard<nb::gil_scoped_release>(),
          "An engine of a model. 0 and '' stand for the defaults, which `options` shows filled "
          "in. Takes no cache memory yet.")
      .def("__repr__",
           [](const SharedEngine& self) {
             const EngineOptions& options = self.constant().options();
             return "Engine(" + std::string(name_of(options.numerics)) + " numerics, " +
                    options.kv + " cache, context " + std::to_string(options.context) + ", " +
                    std::to_string(options.threads) + " threads, " + options.isa + ")";
           })
      .def_prop_ro(
          "options",
          [](const SharedEngine& self) { return options_dict(self.constant().options()); },
          "The options in force, with every default filled in.")
      .def_prop_ro("in_callback", &SharedEngine::in_callback,
                   "Whether this thread is inside a run of it: it cannot be used then.")
      .def_prop_ro("vocab", [](const SharedEngine& self) { return self.constant().vocab(); })
      .def_prop_ro("context", [](const SharedEngine& self) { return self.constant().context(); })
      .def_prop_ro(
          "memory",
          [](SharedEngine& self) {
            return memory_dict(self.use([](Engine& engine) { return engine.memory(); }));
          },
          "Bytes by purpose, and the longest context that the budget holds.")
      .def_prop_ro(
          "cache_bytes_in_use",
          [](SharedEngine& self) {
            return self.use([](Engine& engine) { return engine.cache_bytes_in_use(); });
          },
          "Bytes of cache pages that sequences hold.")
      .def(
          "open",
          [](const std::shared_ptr<SharedEngine>& self, const std::string& rope_switch,
             uint32_t prompt_tokens, const std::vector<Image>& images) {
            const SequenceOptions options = sequence_options(rope_switch, prompt_tokens, images);
            const SequenceId id = self->use([&](Engine& engine) { return engine.open(options); });
            return Sequence(self, id);
          },
          nb::kw_only(), nb::arg("rope_switch") = "reprefill", nb::arg("prompt_tokens") = 0,
          nb::arg("images") = std::vector<Image>(),
          "A new, empty sequence. prompt_tokens is the whole prompt's length where it will come in "
          "several steps (LongRoPE models choose by it); the id -n is a token of the n-th image.")
      .def(
          "step",
          [](SharedEngine& self, const Runs& runs, const std::string& outputs) {
            return step(self, runs, wants_every_row(outputs));
          },
          nb::arg("runs"), nb::kw_only(), nb::arg("outputs") = "last",
          "Runs (sequence, ids) pairs in one step and returns for each the logits after its last "
          "id, [1, vocab], or with outputs='all' after every id, [ids, vocab]. All or nothing: on "
          "an error no sequence has changed.")
      .def("perplexity", &score, nb::arg("ids"), nb::kw_only(), nb::arg("window") = 512,
           nb::arg("save") = "", nb::arg("against") = "", nb::arg("rope_switch") = "reprefill",
           nb::arg("progress").none() = nb::none(),
           "How well the model predicts the ids, in windows without overlap: windows (negative "
           "log-likelihoods), tokens, perplexity; with `against` also kl_mean, kl_p99, same_best.");
}

}  // namespace phidias::python
