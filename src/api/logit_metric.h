// A metric that reads logits alone, taken row by row as they come.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "phidias/metric.h"
#include "phidias/status.h"

namespace phidias {

class LogitMetric {
 public:
  // Errors: kInvalidArgument for a metric without terms, one that reads a value, a token or a
  // reference that is not of this vocabulary, positions that the text has not.
  static Result<LogitMetric> compile(const Metric& metric, std::span<const TokenId> ids,
                                     size_t vocab);

  // Ascending, each once.
  const std::vector<uint32_t>& positions() const { return positions_; }
  // What the logits [vocab] of one of these positions add to the metric.
  double part(uint32_t position, std::span<const float> logits) const;

 private:
  std::vector<std::pair<MetricTerm, uint32_t>> terms_;  // with one position each
  std::vector<uint32_t> positions_;
};

}  // namespace phidias
