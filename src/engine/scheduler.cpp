#include "engine/scheduler.h"

#include <algorithm>

#include "base/invalid.h"
#include "base/try.h"
#include "engine/image_rows.h"
#include "engine/log_probabilities.h"

namespace phidias {
namespace {

constexpr uint32_t kMaxChoices = 128;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Scheduler::Scheduler(Stepper& stepper, const Tokenizer* tokenizer, std::vector<TokenId> stop_ids,
                     GenerateCallback callback)
    : stepper_(&stepper),
      tokenizer_(tokenizer),
      stop_ids_(std::move(stop_ids)),
      callback_(std::move(callback)) {}

Scheduler::~Scheduler() {
  for (const auto& active : active_) {
    for (Answer& answer : active->answers) close_sequence(answer);
  }
}

void Scheduler::close_sequence(Answer& answer) {
  if (answer.sequence == 0) return;
  if (answer.taps != nullptr) {
    const size_t rows = stepper_->length(answer.sequence);
    if (stepper_->is_open(answer.sequence)) stepper_->attach(answer.sequence, nullptr);
    const auto first_edit =
        static_cast<uint32_t>(answer.taps->first_edit(stepper_->options().numerics));
    answer.choice.traced = std::move(*answer.taps).take(rows);
    answer.taps.reset();
    // Whoever goes on with the sequence must not find what these edits have made of it. Cutting it
    // can fail where its last page is shared and there is room for no other: then all is dropped.
    if (answer.borrowed && stepper_->is_open(answer.sequence) && first_edit < rows &&
        !stepper_->truncate(answer.sequence, first_edit).ok()) {
      (void)stepper_->truncate(answer.sequence, 0);
    }
  }
  if (!answer.borrowed) stepper_->close(answer.sequence);
  answer.sequence = 0;
}

Result<size_t> Scheduler::submit(GenerateRequest request) {
  const uint32_t context = stepper_->options().context;
  if (request.prompt.empty()) return invalid("the prompt has no tokens", "prompt");
  PHIDIAS_CHECK_OK(check_images(request.images, stepper_->spec().width));
  ImageRows image_rows(request.images, {});
  for (const TokenId id : request.prompt) {
    PHIDIAS_CHECK_OK(image_rows.next(id));
    if (id >= 0 && static_cast<uint32_t>(id) >= stepper_->spec().vocab) {
      return invalid("token id " + std::to_string(id) + " is outside the vocabulary of " +
                         std::to_string(stepper_->spec().vocab),
                     "prompt");
    }
  }
  if (request.prompt.size() >= context) {
    return Error{Code::kCapacityExceeded,
                 "the prompt has " + std::to_string(request.prompt.size()) +
                     " tokens, and the context in force is " + std::to_string(context) +
                     ": nothing could be answered; shorten it" +
                     (context < stepper_->spec().max_context
                          ? " or raise the context (the model's limit is " +
                                std::to_string(stepper_->spec().max_context) + ")"
                          : ""),
                 {{}, {}, "prompt"}};
  }
  if (request.choices == 0 || request.choices > kMaxChoices) {
    return invalid(
        "is " + std::to_string(request.choices) + ", expected 1 to " + std::to_string(kMaxChoices),
        "choices");
  }
  PHIDIAS_CHECK_OK(request.sampling.validate(stepper_->spec().vocab));
  if (!request.stop_strings.empty() && tokenizer_ == nullptr) {
    return invalid("stop strings need a tokenizer, and this checkpoint has none; use stop ids",
                   "stop_strings");
  }
  auto active = std::make_unique<Active>();
  active->answers.resize(request.choices);
  for (Answer& answer : active->answers) {
    if (tokenizer_ != nullptr)
      answer.stream = std::make_unique<DecodeStream>(*tokenizer_, request.skip_special);
    if (request.stop_strings.empty()) continue;
    PHIDIAS_TRY(answer.stop_text, StopText::create(request.stop_strings));
  }
  active->number = next_number_++;
  active->submitted = Clock::now();
  active->result.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
  const uint32_t room = context - active->result.prompt_tokens;
  request.max_tokens = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
  active->request = std::move(request);
  PHIDIAS_CHECK_OK(compile_taps(*active));
  PHIDIAS_CHECK_OK(begin(*active));
  Answer& first = active->answers.front();
  if (first.taps != nullptr) stepper_->attach(first.sequence, first.taps.get());
  active_.push_back(std::move(active));
  return active_.back()->number;
}

// The first answer's taps see the prompt; those of the others begin as its copies.
Status Scheduler::compile_taps(Active& active) {
  const GenerateRequest& request = active.request;
  if (request.reads.empty() && request.edits.empty()) return {};
  for (const Read& read : request.reads) {
    if (read.moment == Read::Moment::kGradient)
      return invalid("gradients are taken by a trace of a given text", "reads");
  }
  const CollectorContext context{&stepper_->spec(), &stepper_->weights(), &stepper_->rope(),
                                 stepper_->options().kv};
  PHIDIAS_TRY(auto taps,
              SequenceTrace::compile({.reads = request.reads,
                                      .edits = &request.edits,
                                      .prompt = request.prompt,
                                      .rows = request.prompt.size() + request.max_tokens - 1,
                                      .step_rows = stepper_->options().step_rows,
                                      .max_bytes = request.max_read_bytes},
                                     context));
  PHIDIAS_CHECK_OK(taps.allocate());
  active.answers.front().taps = std::make_unique<SequenceTrace>(std::move(taps));
  return {};
}

// Opens the sequence that takes the prompt, or goes on with the caller's behind what it has in
// common.
Status Scheduler::begin(Active& active) {
  const GenerateRequest& request = active.request;
  Answer& first = active.answers.front();
  const SequenceOptions options{.rope_switch = request.rope_switch,
                                .prompt_tokens = active.result.prompt_tokens,
                                .images = request.images};
  if (request.sequence == 0) {
    first.sequence = stepper_->open(options);
    return {};
  }
  if (!stepper_->is_open(request.sequence))
    return invalid("there is no sequence " + std::to_string(request.sequence), "sequence");
  if (request.choices != 1) return invalid("only one answer can go on with a sequence", "choices");
  const auto held = stepper_->tokens(request.sequence);
  // The last token is always run: its logits are wanted.
  size_t most = std::min(held.size(), request.prompt.size() - 1);
  if (first.taps != nullptr)
    most = std::min(most, first.taps->first_position(stepper_->options().numerics));
  const auto shown = stepper_->images(request.sequence);
  uint32_t common = 0;
  while (common < most && held[common] == request.prompt[common] &&
         ImageRows::same(held[common], shown, request.images)) {
    ++common;
  }
  if (first.taps != nullptr) first.taps->follow(held.first(common));
  PHIDIAS_CHECK_OK(stepper_->truncate(request.sequence, common));
  stepper_->resume(request.sequence, options);
  first.sequence = request.sequence;
  first.borrowed = true;
  active.prompt_done = active.result.cached_tokens = common;
  return {};
}

void Scheduler::cancel(size_t request) {
  for (const auto& active : active_) {
    if (active->number == request) active->cancelled = true;
  }
}

Status Scheduler::step() {
  for (const auto& active : active_) {
    if (!active->cancelled) continue;
    for (size_t i = 0; i < active->answers.size(); ++i)
      finish(*active, i, FinishReason::kCancelled);
  }
  retire_finished();
  std::vector<Row> rows;
  std::vector<Source> sources;  // one per row; the active one is null where no logits are wanted
  for (const auto& active : active_) {
    for (size_t i = 0; i < active->answers.size(); ++i) {
      const Answer& answer = active->answers[i];
      if (answer.choice.finish != FinishReason::kNone || answer.ids.empty()) continue;
      const uint32_t position = stepper_->length(answer.sequence);
      const TokenId last = answer.ids.back();
      const TokenId token = answer.taps == nullptr ? last : answer.taps->fed(position, last);
      rows.push_back({token, answer.sequence, position, true});
      sources.push_back({active.get(), i});
    }
  }
  for (const auto& active : active_) {
    const std::vector<TokenId>& prompt = active->request.prompt;
    while (active->prompt_done < prompt.size() && rows.size() < stepper_->options().step_rows) {
      const bool last = active->prompt_done + 1 == prompt.size();
      const Answer& first = active->answers.front();
      const TokenId token = prompt[active->prompt_done];
      rows.push_back({first.taps == nullptr ? token : first.taps->fed(active->prompt_done, token),
                      first.sequence, active->prompt_done, last});
      sources.push_back({last ? active.get() : nullptr, 0});
      ++active->prompt_done;
    }
  }
  PHIDIAS_CHECK_OK(run(rows, sources));
  // A long prompt takes many steps: its owner is asked after each whether to go on.
  for (const auto& active : active_) {
    if (!active->prompt_answered && active->answers.front().choice.finish == FinishReason::kNone)
      emit(*active, 0, nullptr, {}, FinishReason::kNone);
  }
  retire_finished();
  return {};
}

// Where the rows of all together cannot run (no cache page left, as a rule), each request's rows
// are tried alone, and those that fail alone end with the error.
Status Scheduler::run(const std::vector<Row>& rows, const std::vector<Source>& sources) {
  Status status = stepper_->step(
      rows, [&](size_t row, std::span<const float> logits) { deliver(sources[row], logits); });
  if (status.ok()) return status;
  for (const auto& active : active_) {
    std::vector<Row> own_rows;
    std::vector<Source> own_sources;
    for (size_t r = 0; r < rows.size(); ++r) {
      const bool own =
          std::any_of(active->answers.begin(), active->answers.end(),
                      [&](const Answer& answer) { return answer.sequence == rows[r].sequence; });
      if (!own) continue;
      own_rows.push_back(rows[r]);
      own_sources.push_back(sources[r]);
    }
    if (own_rows.empty()) continue;
    const Status alone = stepper_->step(own_rows, [&](size_t row, std::span<const float> logits) {
      deliver(own_sources[row], logits);
    });
    if (alone.ok()) continue;
    for (size_t i = 0; i < active->answers.size(); ++i)
      finish(*active, i, FinishReason::kError, alone.error());
  }
  return {};
}

void Scheduler::deliver(const Source& source, std::span<const float> logits) {
  Active& active = *source.active;
  if (!active.prompt_answered) return begin_answers(active, logits);
  choose(active, source.answer, logits);
}

// The prompt is complete: every answer begins from its one row of logits and its cache.
void Scheduler::begin_answers(Active& active, std::span<const float> logits) {
  active.prompt_answered = true;
  active.result.first_token_seconds = seconds_since(active.submitted);
  for (size_t i = 0; i < active.answers.size(); ++i) choose(active, i, logits);
}

void Scheduler::choose(Active& active, size_t index, std::span<const float> logits) {
  Answer& answer = active.answers[index];
  const SequenceTrace* taps = (answer.taps ? answer.taps : active.answers.front().taps).get();
  if (taps != nullptr && taps->cancelled()) return finish(active, index, FinishReason::kCancelled);
  const GenerateRequest& request = active.request;
  const auto position = static_cast<uint32_t>(request.prompt.size() + answer.ids.size());
  const auto id = pick(logits, request.sampling, {request.prompt, answer.ids},
                       static_cast<uint32_t>(index), position, scratch_);
  if (!id.ok()) return finish(active, index, FinishReason::kError, id.error());
  GeneratedToken token{.id = *id, .log_probability = 0, .best = {}};
  if (request.top_log_probabilities) {
    auto scores = log_probabilities(logits, *id, *request.top_log_probabilities, position);
    if (!scores.ok()) return finish(active, index, FinishReason::kError, scores.error());
    token.log_probability = scores->chosen.log_probability;
    token.best = std::move(scores->best);
  }
  answer.ids.push_back(*id);
  answer.choice.tokens.push_back(token);
  ++active.result.generated_tokens;

  const std::vector<TokenId>& stop_ids = request.stop_ids ? *request.stop_ids : stop_ids_;
  if (std::find(stop_ids.begin(), stop_ids.end(), *id) != stop_ids.end()) {
    if (tokenizer_ != nullptr) answer.choice.stopped_by = tokenizer_->token_bytes(*id);
    emit(active, index, &token, {}, FinishReason::kNone);
    return finish(active, index, FinishReason::kStop);
  }
  std::string text = answer.stream ? answer.stream->push(*id) : std::string();
  if (answer.stop_text) text = answer.stop_text->push(text);
  emit(active, index, &token, text, FinishReason::kNone);
  if (answer.choice.finish != FinishReason::kNone) return;
  if (answer.stop_text && answer.stop_text->matched())
    return finish(active, index, FinishReason::kStop);
  if (answer.ids.size() >= request.max_tokens) finish(active, index, FinishReason::kLength);
}

void Scheduler::emit(Active& active, size_t index, const GeneratedToken* token,
                     const std::string& text, FinishReason finish) {
  active.answers[index].choice.text += text;
  if (!callback_) return;
  const GenerateEvent event{active.number, static_cast<uint32_t>(index), token, text, finish};
  if (!callback_(event)) active.cancelled = true;
}

void Scheduler::finish(Active& active, size_t index, FinishReason reason,
                       std::optional<Error> error) {
  Answer& answer = active.answers[index];
  if (answer.choice.finish != FinishReason::kNone) return;
  // Whatever was held back comes out now; a stop string may still be completed by it.
  std::string text;
  if (!(answer.stop_text && answer.stop_text->matched())) {
    text = answer.stream ? answer.stream->flush() : std::string();
    if (answer.stop_text) {
      text = answer.stop_text->push(text);
      text += answer.stop_text->flush();
    }
  }
  if (answer.stop_text && answer.stop_text->matched()) {
    answer.choice.stopped_by = active.request.stop_strings[*answer.stop_text->matched()];
    if (reason == FinishReason::kLength) reason = FinishReason::kStop;
  }
  answer.choice.finish = reason;
  answer.choice.error = std::move(error);
  emit(active, index, nullptr, text, reason);
}

void Scheduler::retire_finished() {
  for (auto at = active_.begin(); at != active_.end();) {
    Active& active = **at;
    const bool done = std::all_of(
        active.answers.begin(), active.answers.end(),
        [](const Answer& answer) { return answer.choice.finish != FinishReason::kNone; });
    const bool prompt_done = active.prompt_done == active.request.prompt.size();
    for (size_t i = 1; !done && prompt_done && i < active.answers.size(); ++i) {
      Answer& answer = active.answers[i];
      if (answer.sequence != 0 || answer.ids.size() != 1 ||
          answer.choice.finish != FinishReason::kNone)
        continue;
      // The first answer's sequence still holds the prompt alone: its first token is fed in the
      // next step.
      auto copy = stepper_->fork(active.answers.front().sequence);
      if (copy.ok()) {
        answer.sequence = *copy;
        if (const auto& taps = active.answers.front().taps; taps != nullptr) {
          answer.taps = std::make_unique<SequenceTrace>(*taps);
          stepper_->attach(answer.sequence, answer.taps.get());
        }
      } else {
        finish(active, i, FinishReason::kError, copy.error());
      }
    }
    for (Answer& answer : active.answers) {
      if (answer.choice.finish != FinishReason::kNone) close_sequence(answer);
    }
    if (!done) {
      ++at;
      continue;
    }
    active.result.total_seconds = seconds_since(active.submitted);
    for (Answer& answer : active.answers) active.result.choices.push_back(std::move(answer.choice));
    finished_.emplace(active.number, std::move(active.result));
    at = active_.erase(at);
  }
}

GenerateResult Scheduler::take(size_t request) {
  const auto at = finished_.find(request);
  if (at == finished_.end()) return {};
  GenerateResult result = std::move(at->second);
  finished_.erase(at);
  return result;
}

}  // namespace phidias
