#include "api/logit_metric.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/invalid.h"
#include "base/try.h"
#include "trace/positions.h"

namespace phidias {
namespace {

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

}  // namespace

Result<LogitMetric> LogitMetric::compile(const Metric& metric, std::span<const TokenId> ids,
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
    for (size_t i = 0; i < at.size(); ++i) {
      compiled.terms_.emplace_back(term, static_cast<uint32_t>(at.position(i)));
      compiled.positions_.push_back(static_cast<uint32_t>(at.position(i)));
    }
  }
  if (compiled.terms_.empty()) return invalid("a sweep needs a metric", "metric");
  std::vector<uint32_t>& positions = compiled.positions_;
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return compiled;
}

double LogitMetric::part(uint32_t position, std::span<const float> logits) const {
  double sum = 0;
  for (const auto& [term, at] : terms_) {
    if (at == position) sum += term.weight * value_of(term, logits);
  }
  return sum;
}

}  // namespace phidias
