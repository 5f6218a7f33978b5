#include "phidias/patching.h"

#include <algorithm>
#include <cmath>

#include "base/try.h"
#include "engine/stepper.h"
#include "phidias/trace.h"
#include "trace/positions.h"

namespace phidias {
namespace {

Error invalid(std::string message, std::string item) {
  return {Code::kInvalidArgument, std::move(message), {{}, {}, std::move(item)}};
}

// One term at one position.
double value_of(const MetricTerm& term, std::span<const float> logits) {
  const auto logit = [&](size_t id) { return static_cast<double>(logits[id]); };
  if (term.kind == MetricTerm::Kind::kLogit) return logit(static_cast<size_t>(term.token));
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (size_t id = 0; id < logits.size(); ++id) sum += std::exp(logit(id) - largest);
  const double log_sum = largest + std::log(sum);
  if (term.kind == MetricTerm::Kind::kLogProb)
    return logit(static_cast<size_t>(term.token)) - log_sum;
  double divergence = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const double p = term.vector[id];
    if (p > 0) divergence += p * (std::log(p) - (logit(id) - log_sum));
  }
  return divergence;
}

// A metric that reads logits, with the positions of each term.
class LogitMetric {
 public:
  static Result<LogitMetric> compile(const Metric& metric, std::span<const TokenId> ids,
                                     size_t vocab) {
    LogitMetric compiled;
    for (const MetricTerm& term : metric.terms()) {
      const bool of_token =
          term.kind == MetricTerm::Kind::kLogit || term.kind == MetricTerm::Kind::kLogProb;
      if (term.kind == MetricTerm::Kind::kDot)
        return invalid("a sweep's metric reads logits alone", "metric");
      if (of_token && (term.token < 0 || static_cast<size_t>(term.token) >= vocab)) {
        return invalid("token id " + std::to_string(term.token) + " is outside the vocabulary of " +
                           std::to_string(vocab),
                       "metric");
      }
      if (!of_token && term.vector.size() != vocab)
        return invalid("the reference must have " + std::to_string(vocab) + " entries", "metric");
      PHIDIAS_TRY(const PositionSet at, PositionSet::resolve(term.at, ids, ids.size(), "metric"));
      for (size_t i = 0; i < at.size(); ++i)
        compiled.terms_.emplace_back(term, static_cast<int64_t>(at.position(i)));
    }
    if (compiled.terms_.empty()) return invalid("a sweep needs a metric", "metric");
    return compiled;
  }

  Result<double> of(Engine& engine, const std::vector<TokenId>& ids, const Edits& edits) const {
    std::vector<int64_t> positions;
    for (const auto& [term, position] : terms_) {
      if (std::find(positions.begin(), positions.end(), position) == positions.end())
        positions.push_back(position);
    }
    Trace trace(engine, ids);
    const auto logits = trace.read(kValues.logits.at(Positions(positions)));
    trace.edit(edits);
    PHIDIAS_TRY(const Traced traced, trace.run());
    double sum = 0;
    for (const auto& [term, position] : terms_) {
      const auto row = std::find(positions.begin(), positions.end(), position) - positions.begin();
      sum += term.weight * value_of(term, std::span(traced[logits].floats)
                                              .subspan(static_cast<size_t>(row) * engine.vocab(),
                                                       engine.vocab()));
    }
    return sum;
  }

 private:
  std::vector<std::pair<MetricTerm, int64_t>> terms_;
};

}  // namespace

Result<PatchSweep> patch_sweep(Engine& engine, const std::vector<TokenId>& clean,
                               const std::vector<TokenId>& corrupt, ValueId value,
                               const Metric& metric,
                               const std::function<bool(size_t, size_t)>& progress) {
  const ValueInfo& info = info_of(value);
  if (info.module == Module::kModel || axes_of(info.layout).size() < 3 ||
      axes_of(info.layout)[1] != "seq" || !info.writable) {
    return invalid("patching takes a writable value of a layer with a row for each position",
                   std::string(info.name));
  }
  if (clean.size() != corrupt.size()) {
    return invalid("the texts have " + std::to_string(clean.size()) + " and " +
                       std::to_string(corrupt.size()) + " tokens; patching needs equally many",
                   "corrupt");
  }
  PHIDIAS_TRY(const LogitMetric measured, LogitMetric::compile(metric, clean, engine.vocab()));
  ValueRef all;
  all.id = value;
  all.layers = {false, 0};
  Trace source(engine, clean);
  Read wanted;
  wanted.value = all;
  source.read(wanted);
  PHIDIAS_TRY(const Traced traced, source.run());

  PatchSweep sweep;
  sweep.layers = traced.entries.size();
  sweep.positions = clean.size();
  PHIDIAS_TRY(sweep.clean, measured.of(engine, clean, {}));
  PHIDIAS_TRY(sweep.corrupt, measured.of(engine, corrupt, {}));
  const size_t runs = sweep.layers * sweep.positions;
  for (size_t layer = 0; layer < sweep.layers; ++layer) {
    for (size_t position = 0; position < sweep.positions; ++position) {
      if (progress && !progress(sweep.metric.size(), runs))
        return Error{Code::kCancelled, "was interrupted", {}};
      ValueRef place = all;
      place.layers = {true, static_cast<int32_t>(layer)};
      const auto at = static_cast<int64_t>(position);
      const std::pair<int64_t, int64_t> map[] = {{at, at}};
      const Edits edits = patch(place, traced.entries[layer].tensor, map);
      PHIDIAS_TRY(const double patched, measured.of(engine, corrupt, edits));
      sweep.metric.push_back(patched);
    }
  }
  if (progress) progress(runs, runs);
  return sweep;
}

}  // namespace phidias
