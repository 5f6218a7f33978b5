#include "engine/log_probabilities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/try.h"
#include "engine/logits_row.h"

namespace phidias {
namespace {

// What turns logits into log-probabilities. The largest logit goes first, so that no exponential
// overflows and the sum is at least 1: no result is above 0.
struct Normalizer {
  double largest;
  double log_sum;  // of exp(logit - largest)
  double operator()(float logit) const { return (logit - largest) - log_sum; }
};

Result<Normalizer> normalizer(std::span<const float> logits, uint32_t position) {
  PHIDIAS_TRY(const TokenId best, largest_logit(logits, position));
  const double largest = logits[static_cast<size_t>(best)];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return Normalizer{largest, std::log(sum)};
}

Status check_token(std::span<const float> logits, TokenId id) {
  if (id >= 0 && static_cast<size_t>(id) < logits.size()) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("token {} is not in the vocabulary of {} tokens", id, logits.size()),
               {}};
}

}  // namespace

Result<LogProbabilities> log_probabilities(std::span<const float> logits, TokenId chosen,
                                           size_t best_count, uint32_t position) {
  PHIDIAS_CHECK_OK(check_token(logits, chosen));
  PHIDIAS_TRY(const Normalizer normalize, normalizer(logits, position));

  // Ids and logits in one pass: the heap of best_count entries rejects most tokens with one
  // comparison.
  const auto before = [&](TokenId a, TokenId b) {
    const float first = logits[static_cast<size_t>(a)];
    const float second = logits[static_cast<size_t>(b)];
    return first != second ? first > second : a < b;
  };
  std::vector<TokenId> ids;
  best_count = std::min(best_count, logits.size());
  ids.reserve(best_count);
  for (TokenId id = 0; static_cast<size_t>(id) < logits.size() && best_count > 0; ++id) {
    if (logits[static_cast<size_t>(id)] == -std::numeric_limits<float>::infinity()) continue;
    if (ids.size() == best_count) {
      if (!before(id, ids.front())) continue;
      std::pop_heap(ids.begin(), ids.end(), before);
      ids.pop_back();
    }
    ids.push_back(id);
    std::push_heap(ids.begin(), ids.end(), before);
  }
  std::sort_heap(ids.begin(), ids.end(), before);

  const auto entry = [&](TokenId id) {
    return TokenLogProbability{id, normalize(logits[static_cast<size_t>(id)])};
  };
  LogProbabilities result{entry(chosen), {}};
  result.best.reserve(ids.size());
  for (const TokenId id : ids) result.best.push_back(entry(id));
  return result;
}

Result<double> negative_log_likelihood(std::span<const float> logits, TokenId target,
                                       uint32_t position) {
  PHIDIAS_CHECK_OK(check_token(logits, target));
  PHIDIAS_TRY(const Normalizer normalize, normalizer(logits, position));
  return 0.0 -
         normalize(
             logits[static_cast<size_t>(target)]);  // a plain minus would give -0 for certainty
}

Status log_softmax(std::span<const float> logits, std::span<float> out, uint32_t position) {
  PHIDIAS_ASSERT(logits.size() == out.size());
  PHIDIAS_TRY(const Normalizer normalize, normalizer(logits, position));
  std::transform(logits.begin(), logits.end(), out.begin(),
                 [&](float logit) { return static_cast<float>(normalize(logit)); });
  return {};
}

}  // namespace phidias
