// How the next token is chosen from a row of logits: options, their order, and what
// log-probabilities mean.
//
// The order, fixed and the same for every request:
//   repetition penalty, presence and frequency penalties, logit bias,
//   temperature, top-k, top-p, min-p, typical.
// Edits of single logits come first because they are stated in the model's own units; the filters
// follow in the order of the warpers of Hugging Face transformers, so that options copied from
// there mean the same. Each filter sees the distribution that the one before left, renormalised.
// Tokens that tie with the last one kept are kept as well, so no result depends on how ties are
// sorted, and at least one token always remains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

struct LogitBias {
  TokenId id = 0;
  double bias = 0;  // added to the logit; -infinity bans the token. Entries for the same id add up.
};

// Which tokens the repetition penalty looks at.
enum class RepetitionRange : uint8_t { kPromptAndAnswer, kAnswer };

// The defaults choose greedily and change nothing.
struct SamplingOptions {
  // 0: the largest logit, lowest id on ties; the filters below then do nothing. Otherwise logits
  // are divided by it.
  double temperature = 0;
  // Keep the k most likely tokens; 0: off.
  uint32_t top_k = 0;
  // Keep a token while the mass of those more likely is less than this; 1: off.
  double top_p = 1;
  // Keep what has at least this share of the most likely token's probability; 0: off.
  double min_p = 0;
  // Keep this mass of the tokens whose surprisal is nearest to the entropy; 1: off.
  double typical_p = 1;

  // A token seen before: a positive logit is divided by it, a negative one multiplied, once however
  // often the token occurred. 1: off.
  double repetition_penalty = 1;
  RepetitionRange repetition_range = RepetitionRange::kPromptAndAnswer;
  uint32_t repetition_last = 0;  // only the last so many tokens of that range; 0: all of it

  // Subtracted from the logit of a token that the answer holds: `presence` once, `frequency` per
  // occurrence. The prompt never counts.
  double presence_penalty = 0;
  double frequency_penalty = 0;

  std::vector<LogitBias> logit_bias = {};  // ids in the vocabulary

  // Draws depend on (seed, choice, position, token id) and on nothing else: not on the batch, not
  // on other tokens.
  uint64_t seed = 0;

  // Every field is in range, and NaN nowhere. Errors: kInvalidArgument with the field's name as the
  // place.
  //   vocabulary   ids in logit_bias must be below it
  static constexpr size_t kAnyVocabulary = std::numeric_limits<size_t>::max();
  Status validate(size_t vocabulary = kAnyVocabulary) const;
};

// The natural logarithm of a token's probability under the model itself: before temperature,
// penalties, bias and filters. Never above 0; -infinity for a token whose logit is.
struct TokenLogProbability {
  TokenId id = 0;
  double log_probability = 0;
};

}  // namespace phidias
