#include "phidias/runs.h"

#include <algorithm>
#include <map>

#include "api/model_impl.h"
#include "base/invalid.h"
#include "base/try.h"
#include "engine/stepper.h"
#include "trace/edit_program.h"

namespace phidias {
namespace {

Error in_run(const NamedRun& run, Error error) {
  error.place.item = "run " + run.name + (error.place.item.empty() ? "" : ", " + error.place.item);
  return error;
}

std::string place_of(const NamedRun& run, size_t edit) {
  return "run " + run.name + ", edit " + std::to_string(edit + 1);
}

// What an edit needs of another run: the read, and in which rows the positions of its map lie.
struct Need {
  size_t run = 0;
  size_t edit = 0;
  size_t source = 0;  // run
  size_t read = 0;    // of the source run, behind its own
  std::vector<size_t> rows;
};

class Document {
 public:
  Document(Engine& engine, std::span<const NamedRun> runs)
      : engine_(engine), runs_(runs), reads_(runs.size()), needs_(runs.size()) {}

  Result<std::vector<Traced>> run() {
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i < runs_.size(); ++i) {
      reads_[i] = runs_[i].reads;
      if (runs_[i].name.empty())
        return invalid("a run has no name", "run " + std::to_string(i + 1));
      if (!numbers.emplace(runs_[i].name, i).second)
        return invalid("two runs have this name", "run " + runs_[i].name);
    }
    for (size_t i = 0; i < runs_.size(); ++i) {
      for (size_t e = 0; e < runs_[i].edits.size(); ++e) {
        if (runs_[i].edits[e].from) PHIDIAS_CHECK_OK(add_need(i, e, numbers));
      }
    }
    PHIDIAS_TRY(const auto order, order_of_runs());
    traced_.resize(runs_.size());
    for (const size_t number : order) {
      const Status done = run_one(number);
      if (!done.ok()) return in_run(runs_[number], done.error());
    }
    for (size_t i = 0; i < runs_.size(); ++i) {
      std::erase_if(traced_[i].entries, [&](const Traced::Entry& entry) {
        return entry.read >= runs_[i].reads.size();
      });
    }
    return std::move(traced_);
  }

 private:
  Status add_need(size_t run, size_t number, const std::map<std::string, size_t>& numbers) {
    const Edit& edit = runs_[run].edits[number];
    const std::string place = place_of(runs_[run], number);
    const auto source = numbers.find(edit.from->run);
    if (source == numbers.end())
      return invalid("there is no run \"" + edit.from->run + "\"", place);
    Need need{run, number, source->second, reads_[source->second].size(), {}};
    Read read{edit.from->value};
    if (!edit.position_map.empty()) {
      Positions& at = read.value.selection.at;
      if (at != Positions() || edit.value.selection.at != Positions())
        return invalid("has positions beside its position map", place);
      std::vector<int64_t> wanted;
      for (const auto& [from, to] : edit.position_map) {
        const auto found = std::find(wanted.begin(), wanted.end(), from);
        need.rows.push_back(static_cast<size_t>(found - wanted.begin()));
        if (found == wanted.end()) wanted.push_back(from);
      }
      at = Positions(std::move(wanted));
    }
    reads_[need.source].push_back(std::move(read));
    needs_[run].push_back(std::move(need));
    return {};
  }

  Result<std::vector<size_t>> order_of_runs() const {
    enum class State : uint8_t { kNew, kOpen, kDone };
    std::vector<State> states(runs_.size(), State::kNew);
    std::vector<size_t> order;
    for (size_t first = 0; first < runs_.size(); ++first) {
      std::vector<size_t> stack{first};  // not recursive: a document may chain any number of runs
      while (!stack.empty()) {
        const size_t run = stack.back();
        if (states[run] == State::kNew) {
          states[run] = State::kOpen;
          for (const Need& need : needs_[run]) {
            if (states[need.source] == State::kOpen)
              return invalid("refers to a run that waits for it", place_of(runs_[run], need.edit));
            if (states[need.source] == State::kNew) stack.push_back(need.source);
          }
          continue;
        }
        stack.pop_back();
        if (states[run] == State::kOpen) order.push_back(run);
        states[run] = State::kDone;
      }
    }
    return order;
  }

  // An edit of another run's value becomes one edit for each layer, with its tensor.
  Status resolve(const Need& need, Edits& edits) const {
    const Edit& edit = runs_[need.run].edits[need.edit];
    const ModelSpec& spec = engine_.stepper().spec();
    PHIDIAS_TRY(const auto layers, resolve_layers(edit.value, spec));
    std::vector<const Tensor*> sources;
    for (const Traced::Entry& entry : traced_[need.source].entries) {
      if (entry.read == need.read) sources.push_back(&entry.tensor);
    }
    if (sources.size() != 1 && sources.size() != layers.size()) {
      return invalid("takes " + std::to_string(sources.size()) + " layers of the other run for " +
                         std::to_string(layers.size()),
                     "edit " + std::to_string(need.edit + 1));
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      Edit single = edit;
      single.from.reset();
      single.position_map.clear();
      if (has_layers(info_of(edit.value.id).module))
        single.value.layers = {true, static_cast<int32_t>(layers[i])};
      const Tensor& source = *sources[sources.size() == 1 ? 0 : i];
      if (need.rows.empty()) {
        single.tensor = std::make_shared<const Tensor>(source);
      } else {
        single.tensor = std::make_shared<const Tensor>(rows_of(source, edit.from->value.id, need));
        std::vector<int64_t> targets;
        for (const auto& [from, to] : edit.position_map) targets.push_back(to);
        single.value.selection.at = Positions(std::move(targets));
      }
      edits += std::move(single);
    }
    return {};
  }

  static Tensor rows_of(const Tensor& source, ValueId id, const Need& need) {
    const auto axes = axes_of(info_of(id).layout);
    const auto seq = static_cast<size_t>(
        std::find_if(axes.begin(), axes.end(),
                     [](std::string_view axis) { return axis == "seq" || axis == "query"; }) -
        axes.begin());
    if (seq >= source.shape.size()) return source;
    uint64_t outer = 1;
    uint64_t inner = 1;
    for (size_t a = 0; a < seq; ++a) outer *= source.shape[a];
    for (size_t a = seq + 1; a < source.shape.size(); ++a) inner *= source.shape[a];
    Tensor rows{source.type, source.shape, {}, source.integers};
    rows.shape[seq] = need.rows.size();
    for (uint64_t o = 0; source.type == TensorType::kF32 && o < outer; ++o) {
      for (const size_t row : need.rows) {
        const auto from =
            source.floats.begin() + static_cast<ptrdiff_t>((o * source.shape[seq] + row) * inner);
        rows.floats.insert(rows.floats.end(), from, from + static_cast<ptrdiff_t>(inner));
      }
    }
    return rows;
  }

  Status run_one(size_t number) {
    const NamedRun& run = runs_[number];
    Edits edits;
    std::vector<size_t> owners;  // of each edit as it is run
    auto need = needs_[number].begin();
    for (size_t e = 0; e < run.edits.size(); ++e) {
      if (need != needs_[number].end() && need->edit == e) {
        PHIDIAS_CHECK_OK(resolve(*need++, edits));
      } else {
        edits += run.edits[e];
      }
      owners.resize(edits.size(), e);
    }
    Trace trace(engine_, run.ids, run.options);
    for (const Read& read : reads_[number]) trace.read(read);
    trace.edit(edits);
    trace.metric(run.metric);
    PHIDIAS_TRY(Traced traced, trace.run());
    // Reports in the order of the given list, behind those of edits in force.
    const size_t in_force = traced.edits.size() - edits.size();
    std::vector<EditReport> reports(traced.edits.begin(),
                                    traced.edits.begin() + static_cast<ptrdiff_t>(in_force));
    reports.resize(in_force + run.edits.size());
    for (size_t i = 0; i < edits.size(); ++i) {
      EditReport& report = reports[in_force + owners[i]];
      report.rows = std::max(report.rows, traced.edits[in_force + i].rows);
    }
    traced.edits = std::move(reports);
    traced_[number] = std::move(traced);
    return {};
  }

  Engine& engine_;
  std::span<const NamedRun> runs_;
  std::vector<std::vector<Read>> reads_;  // of each run: its own, then what others need
  std::vector<std::vector<Need>> needs_;  // of each run, by edit
  std::vector<Traced> traced_;
};

}  // namespace

Result<std::vector<Traced>> trace_runs(Engine& engine, std::span<const NamedRun> runs) {
  return Document(engine, runs).run();
}

}  // namespace phidias
