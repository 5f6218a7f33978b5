// Which rows go into the next step, and what becomes of their logits. The policy: every running
// answer decodes one token; the rows left are filled with prompt tokens of waiting requests, first
// come, first served.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "engine/sampler.h"
#include "engine/stepper.h"
#include "engine/stop_text.h"
#include "phidias/generation.h"
#include "trace/sequence_trace.h"

namespace phidias {

// One thread at a time. Stepper and tokenizer must outlive it. The functions are those of
// phidias::Generator.
class Scheduler {
 public:
  //   tokenizer   may be null: answers have no text then
  //   stop_ids    of requests that bring none
  Scheduler(Stepper& stepper, const Tokenizer* tokenizer, std::vector<TokenId> stop_ids,
            GenerateCallback callback);
  ~Scheduler();

  Result<size_t> submit(GenerateRequest request);
  void cancel(size_t request);
  bool done() const { return active_.empty(); }
  Status step();
  GenerateResult take(size_t request);

 private:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    SequenceId sequence = 0;  // 0: none, finished or not begun
    bool borrowed = false;    // the caller's: left open
    Choice choice;
    std::vector<TokenId> ids;
    std::unique_ptr<DecodeStream> stream;
    std::optional<StopText> stop_text;
    std::unique_ptr<SequenceTrace> taps;  // null where nothing is read or edited
  };
  struct Active {
    size_t number = 0;
    GenerateRequest request;
    std::vector<Answer> answers;   // the first one's sequence takes the prompt
    uint32_t prompt_done = 0;      // tokens given to a step
    bool prompt_answered = false;  // its logits have been used
    bool cancelled = false;
    GenerateResult result;
    Clock::time_point submitted;
  };
  struct Source {  // of a row whose logits are wanted
    Active* active;
    size_t answer;
  };

  void deliver(const Source& source, std::span<const float> logits);
  Status begin(Active& active);
  Status compile_taps(Active& active);
  void close_sequence(Answer& answer);
  void choose(Active& active, size_t index, std::span<const float> logits);
  void begin_answers(Active& active, std::span<const float> logits);
  void emit(Active& active, size_t index, const GeneratedToken* token, const std::string& text,
            FinishReason finish);
  void finish(Active& active, size_t index, FinishReason reason, std::optional<Error> error = {});
  void retire_finished();
  Status run(const std::vector<Row>& rows, const std::vector<Source>& sources);

  Stepper* stepper_;
  const Tokenizer* tokenizer_;
  std::vector<TokenId> stop_ids_;
  GenerateCallback callback_;
  std::deque<std::unique_ptr<Active>> active_;
  std::map<size_t, GenerateResult> finished_;
  size_t next_number_ = 0;
  SamplerScratch scratch_;
};

}  // namespace phidias
