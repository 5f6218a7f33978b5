// Natural log-probabilities of tokens under the model itself: the log-softmax of the raw logits,
// before temperature, penalties, bias and filters. Sums are in double. Pure functions.
//
// All of them fail with kNonFinite, naming token and position, for NaN or +infinity anywhere or
// -infinity everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "phidias/sampling.h"
#include "phidias/status.h"

namespace phidias {

struct LogProbabilities {
  TokenLogProbability chosen;
  std::vector<TokenLogProbability> best;  // most likely first, lowest id first on ties
};

//   logits      [vocabulary]
//   chosen      in the vocabulary, else kInvalidArgument
//   best_count  how many of the most likely tokens to list; fewer come where fewer are possible at
//   all position    of the token that the row predicts; for the message only
Result<LogProbabilities> log_probabilities(std::span<const float> logits, TokenId chosen,
                                           size_t best_count, uint32_t position);

// -log p(target), at least 0; what perplexity sums up.
Result<double> negative_log_likelihood(std::span<const float> logits, TokenId target,
                                       uint32_t position);

// The whole row: out[i] = log p(i), rounded to float. The spans have the same length.
Status log_softmax(std::span<const float> logits, std::span<float> out, uint32_t position);

}  // namespace phidias
