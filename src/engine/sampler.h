// From a row of logits to a token. Pure functions: the answer depends on the arguments alone, never
// on what else is in the batch. The scratch only saves allocations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phidias/sampling.h"
#include "phidias/status.h"

namespace phidias {

// What came before the token to be chosen. Ids outside the vocabulary are passed over.
struct SamplingHistory {
  std::span<const TokenId> prompt;
  std::span<const TokenId> answer;
};

// A token that may be drawn.
struct Candidate {
  TokenId id = 0;
  double score = 0;  // (adjusted logit - the largest of them) / temperature
};

// Buffers, kept from call to call: once they have grown to the vocabulary nothing is allocated. One
// per thread.
struct SamplerScratch {
  struct Ranked {
    double rank;  // lower is kept first
    double mass;  // probability, not normalised
  };
  std::vector<double> adjusted;
  std::vector<uint32_t> occurrences;  // all zero between calls
  std::vector<double> largest;
  std::vector<Candidate> candidates;
  std::vector<Ranked> ranked;
};

// The logits after penalties and bias; the view lives in `scratch`.
//   logits    [vocabulary], finite or -infinity
//   options   valid for this vocabulary
std::span<const double> adjust_logits(std::span<const float> logits, const SamplingOptions& options,
                                      const SamplingHistory& history, SamplerScratch& scratch);

// The tokens that every filter keeps, ids ascending; the view lives in `scratch`.
// options.temperature > 0. Errors: as pick().
Result<std::span<const Candidate>> filter_candidates(std::span<const float> logits,
                                                     const SamplingOptions& options,
                                                     const SamplingHistory& history,
                                                     uint32_t position, SamplerScratch& scratch);

// The next token. Temperature 0: the largest adjusted logit, lowest id on ties. Otherwise the
// largest of score + Gumbel noise among the filtered tokens, lowest id on ties; the noise of a
// token is a function of (options.seed, choice, position, id) alone (base/random.h), with the same
// bits on every machine. Filters compare sums of std::exp: a token exactly at a cut-off may fall on
// either side of it with another C library.
//   logits     [vocabulary]; -infinity marks a token that must not be chosen
//   choice     index among the answers to one prompt
//   position   that the token will take in its sequence
// Errors: kInvalidArgument for options that do not validate, for no logits, or where logit_bias
// bans every token;
//   kNonFinite, naming token and position, for NaN or +infinity anywhere or -infinity everywhere.
Result<TokenId> pick(std::span<const float> logits, const SamplingOptions& options,
                     const SamplingHistory& history, uint32_t choice, uint32_t position,
                     SamplerScratch& scratch);

}  // namespace phidias
