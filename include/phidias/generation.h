// Requests in, answers out: many at once, streamed, each with its own options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phidias/engine.h"
#include "phidias/sampling.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"
#include "phidias/trace.h"

namespace phidias {

struct GenerateRequest {
  std::vector<TokenId> prompt;           // at least one id
  std::vector<ImageHandle> images = {};  // that the prompt shows: the id -n is a token of the n-th
  SamplingOptions sampling;
  uint32_t max_tokens = 0;  // of each answer; 0, or more than fits: until the context is full
  uint32_t choices = 1;     // answers to the one prompt, 1 to 128
  std::optional<std::vector<TokenId>> stop_ids;  // in place of the model's own; empty: none
  std::vector<std::string>
      stop_strings;  // need a tokenizer; the text ends before the first that occurs
  std::optional<uint32_t>
      top_log_probabilities;  // log-probability of each token and of so many alternatives
  bool skip_special = true;   // leave special tokens out of the text
  RopeSwitch rope_switch = RopeSwitch::kReprefill;
  // A sequence of the caller's to go on with, for one choice: what its tokens have in common with
  // the prompt is not run again. It ends up holding the prompt and the answer, and stays the
  // caller's; of an edited answer it holds what lies before the first edited position. 0: a fresh
  // one.
  SequenceId sequence = 0;
  // Values to keep and to change, of every answer (Choice::traced). Of `sequence` only what lies
  // before the first position read or edited is reused (in fast numerics nothing where a pattern is
  // edited).
  std::vector<Read> reads{};
  Edits edits{};
  uint64_t max_read_bytes = uint64_t{8} << 30;  // of one answer; more is refused with the figure
};

enum class FinishReason : uint8_t {
  kNone,    // not finished
  kStop,    // a stop id or a stop string
  kLength,  // max_tokens, or the context is full
  kCancelled,
  kError,  // see Choice::error; other requests go on
};
// "stop", "length", "cancelled", "error".
std::string_view name_of(FinishReason reason);

struct GeneratedToken {
  TokenId id = 0;
  double log_probability = 0;  // where asked for
  std::vector<TokenLogProbability> best;
};

struct Choice {
  std::vector<GeneratedToken> tokens;  // with the stop id, if one ended it
  std::string text;                    // without the stop id's and without the stop string
  FinishReason finish = FinishReason::kNone;
  std::string stopped_by;  // the stop string, or the stop id's text
  Traced traced;           // of what was asked for, positions that were run
  std::optional<Error> error;
};

struct GenerateResult {
  std::vector<Choice> choices;
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;      // of the prompt, found in the caller's sequence
  uint32_t generated_tokens = 0;   // of all choices
  double first_token_seconds = 0;  // from submission
  double total_seconds = 0;
};

// What one token brought, or that a step of a long prompt is done (no token, no text). `text` may
// be empty (a character not complete, a possible stop string held back).
struct GenerateEvent {
  size_t request = 0;  // as submitted, from 0
  uint32_t choice = 0;
  const GeneratedToken* token = nullptr;  // null where only held-back text is released
  std::string_view text;
  FinishReason finish = FinishReason::kNone;
};
// Called on the thread that steps; must not call the generator. False cancels the request.
using GenerateCallback = std::function<bool(const GenerateEvent&)>;

// Runs requests side by side: each step decodes one token of every running answer and takes prompt
// tokens of waiting requests into the same pass. A request's answer does not depend on what else
// runs. One thread at a time; the engine must outlive it and be used by nothing else meanwhile.
class Generator {
 public:
  explicit Generator(Engine& engine, GenerateCallback callback = {});
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // The request's number, counted from 0. Errors: kInvalidArgument (empty prompt, sampling options,
  // stop strings without a tokenizer, choices), kCapacityExceeded (the prompt fills the context;
  // both lengths are named).
  Result<size_t> submit(GenerateRequest request);
  void cancel(size_t request);
  bool done() const;  // nothing is waiting or running
  // One pass. An error that only some requests caused ends these; the step itself fails for
  // nobody's request.
  Status step();
  // The result of a finished request; it is kept until taken.
  GenerateResult take(size_t request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// All requests at once, until every one has finished; results in their order. The first invalid
// request is an error and nothing runs.
Result<std::vector<GenerateResult>> generate(Engine& engine,
                                             std::span<const GenerateRequest> requests,
                                             const GenerateCallback& callback = {});
Result<GenerateResult> generate(Engine& engine, const GenerateRequest& request,
                                const GenerateCallback& callback = {});

}  // namespace phidias
