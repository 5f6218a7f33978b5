// Requests and their answers. Python drives the steps: each one runs without the interpreter's lock
// and hands back what it brought, so that Ctrl-C and other threads get their turn between steps.
#include "phidias/generation.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <set>

#include "images.h"
#include "shared_engine.h"

namespace phidias::python {
namespace {

// A GenerateEvent that outlives the step.
struct Event {
  size_t request = 0;
  uint32_t choice = 0;
  std::optional<GeneratedToken> token;
  std::string text;
  FinishReason finish = FinishReason::kNone;
};

class SharedGenerator {
 public:
  explicit SharedGenerator(std::shared_ptr<SharedEngine> engine) : engine_(std::move(engine)) {
    generator_ = engine_->use([this](Engine& used) {
      return std::make_shared<Generator>(used, [this](const GenerateEvent& event) {
        events_.push_back({event.request, event.choice,
                           event.token == nullptr ? std::nullopt : std::optional(*event.token),
                           std::string(event.text), event.finish});
        return true;
      });
    });
  }
  ~SharedGenerator() { engine_->retire(std::move(generator_)); }
  SharedGenerator(const SharedGenerator&) = delete;
  SharedGenerator& operator=(const SharedGenerator&) = delete;

  template <typename Function>
  auto use(Function&& function) {
    return engine_->use([&](Engine&) { return function(*generator_); });
  }
  size_t submit(const GenerateRequest& request) {
    const size_t number =
        use([&](Generator& generator) { return unwrap(generator.submit(request)); });
    unfinished_[number] = request.choices;
    return number;
  }
  bool finished(size_t request) const {
    const auto at = unfinished_.find(request);
    return at == unfinished_.end() || at->second == 0;
  }
  GenerateResult take(size_t request) {
    unfinished_.erase(request);
    return use([&](Generator& generator) { return generator.take(request); });
  }
  void cancel(size_t request) {
    use([&](Generator& generator) { generator.cancel(request); });
  }
  void abandon(size_t request) {
    cancel(request);
    abandoned_.insert(request);
  }
  // What it brings goes straight into the queues: between here and there no signal handler of
  // Python's can raise, so that whoever is interrupted while stepping loses nothing of others.
  void step(const nb::dict& queues) {
    const std::vector<Event> events = engine_->use([&](Engine&) {
      unwrap(generator_->step());
      return std::exchange(events_, {});
    });
    for (const Event& event : events) {
      if (event.finish != FinishReason::kNone) --unfinished_[event.request];
      const nb::int_ number(event.request);
      if (queues.contains(number)) queues[number].attr("append")(nb::cast(event));
    }
    std::erase_if(abandoned_, [&](size_t request) {
      const bool over = finished(request);
      if (over) take(request);
      return over;
    });
  }

 private:
  std::shared_ptr<SharedEngine> engine_;
  std::shared_ptr<Generator> generator_;
  std::vector<Event> events_;
  std::map<size_t, uint32_t> unfinished_;  // choices of each request that is not taken
  std::set<size_t> abandoned_;
};

nb::list pairs(const std::vector<TokenLogProbability>& best) {
  nb::list list;
  for (const TokenLogProbability& other : best)
    list.append(nb::make_tuple(other.id, other.log_probability));
  return list;
}

void bind_requests(nb::module_& module) {
  nb::class_<SamplingOptions>(module, "SamplingOptions",
                              "How the next token is chosen; the defaults take the likeliest.")
      .def(nb::init<>())
      .def_rw("temperature", &SamplingOptions::temperature)
      .def_rw("top_k", &SamplingOptions::top_k)
      .def_rw("top_p", &SamplingOptions::top_p)
      .def_rw("min_p", &SamplingOptions::min_p)
      .def_rw("typical_p", &SamplingOptions::typical_p)
      .def_rw("repetition_penalty", &SamplingOptions::repetition_penalty)
      .def_rw("repetition_last", &SamplingOptions::repetition_last)
      .def_prop_rw(
          "repetition_answer_only",
          [](const SamplingOptions& self) {
            return self.repetition_range == RepetitionRange::kAnswer;
          },
          [](SamplingOptions& self, bool answer_only) {
            self.repetition_range =
                answer_only ? RepetitionRange::kAnswer : RepetitionRange::kPromptAndAnswer;
          })
      .def_rw("presence_penalty", &SamplingOptions::presence_penalty)
      .def_rw("frequency_penalty", &SamplingOptions::frequency_penalty)
      .def(
          "add_logit_bias",
          [](SamplingOptions& self, TokenId id, double bias) {
            self.logit_bias.push_back({id, bias});
          },
          nb::arg("id"), nb::arg("bias"))
      .def_rw("seed", &SamplingOptions::seed);

  nb::class_<GenerateRequest>(module, "GenerateRequest", "One prompt and what to do with it.")
      .def(nb::init<>())
      .def_rw("prompt", &GenerateRequest::prompt)
      .def_rw("sampling", &GenerateRequest::sampling)
      .def_rw("max_tokens", &GenerateRequest::max_tokens)
      .def_rw("choices", &GenerateRequest::choices)
      .def_rw("stop_ids", &GenerateRequest::stop_ids, nb::arg().none())
      .def_rw("stop_strings", &GenerateRequest::stop_strings)
      .def_rw("top_log_probabilities", &GenerateRequest::top_log_probabilities, nb::arg().none())
      .def_rw("skip_special", &GenerateRequest::skip_special)
      .def_rw("max_read_bytes", &GenerateRequest::max_read_bytes)
      .def(
          "add_image",
          [](GenerateRequest& self, const Image& image) { self.images.push_back(image.handle); },
          nb::arg("image"), "The id -n of the prompt is a token of the n-th.")
      .def(
          "add_read",
          [](GenerateRequest& self, const ValueRef& value, const std::string& moment) {
            self.reads.push_back({value, moment_of(moment)});
          },
          nb::arg("value"), nb::kw_only(), nb::arg("moment") = "after")
      .def(
          "add_edit", [](GenerateRequest& self, const Edit& edit) { self.edits += edit; },
          nb::arg("edit"))
      .def_prop_rw(
          "rope_switch",
          [](const GenerateRequest& self) { return std::string(name_of(self.rope_switch)); },
          [](GenerateRequest& self, const std::string& name) {
            self.rope_switch = unwrap(rope_switch_from_name(name));
          });
}

void bind_answers(nb::module_& module) {
  nb::class_<GeneratedToken>(module, "Token", "A token of an answer.")
      .def_ro("id", &GeneratedToken::id)
      .def_ro("log_probability", &GeneratedToken::log_probability,
              "Natural logarithm of its probability under the model itself; 0 unless asked for.")
      .def_prop_ro(
          "best", [](const GeneratedToken& self) { return pairs(self.best); },
          nb::sig("def best(self) -> list[tuple[int, float]]"),
          "The likeliest tokens at this place, as (id, log-probability).")
      .def("__repr__", [](const GeneratedToken& self) {
        return "Token(" + std::to_string(self.id) +
               ", log_probability=" + std::to_string(self.log_probability) + ")";
      });

  nb::class_<Choice>(module, "Choice", "One answer.")
      .def_ro("tokens", &Choice::tokens, "Its tokens, with the stop id if one ended it.")
      .def_prop_ro(
          "ids",
          [](const Choice& self) {
            std::vector<TokenId> ids;
            for (const GeneratedToken& token : self.tokens) ids.push_back(token.id);
            return ids;
          },
          "The ids of its tokens.")
      .def_ro("text", &Choice::text, "Without the stop id's text and without the stop string.")
      .def_prop_ro(
          "finish_reason", [](const Choice& self) { return name_of(self.finish); },
          "'stop', 'length', 'cancelled' or 'error'.")
      .def_ro("traced", &Choice::traced, "Of what was to be kept: all positions that were run.")
      .def_ro("stopped_by", &Choice::stopped_by, "The stop string, or the stop id's text.")
      .def_prop_ro(
          "error",
          [](const Choice& self) {
            return self.error ? exception_object(*self.error) : nb::none();
          },
          nb::sig("def error(self) -> Exception | None"),
          "What ended it, where finish_reason is 'error'.")
      .def("__repr__", [](const Choice& self) {
        return nb::str("Choice({!r}, finish_reason={!r})").format(self.text, name_of(self.finish));
      });

  nb::class_<GenerateResult>(module, "GenerateResult", "All answers to a prompt.")
      .def_ro("choices", &GenerateResult::choices)
      .def_ro("prompt_tokens", &GenerateResult::prompt_tokens)
      .def_ro("generated_tokens", &GenerateResult::generated_tokens, "Of all choices.")
      .def_ro("first_token_seconds", &GenerateResult::first_token_seconds, "From submission.")
      .def_ro("total_seconds", &GenerateResult::total_seconds);

  nb::class_<Event>(module, "Event", "What one token of one answer brought.")
      .def_ro("request", &Event::request, "As submitted, from 0.")
      .def_ro("choice", &Event::choice)
      .def_ro("token", &Event::token, "None where only text that was held back is released.")
      .def_ro("text", &Event::text, "May be empty: a character not complete, a possible stop.")
      .def_prop_ro(
          "finish_reason",
          [](const Event& self) {
            return self.finish == FinishReason::kNone ? nb::none() : nb::cast(name_of(self.finish));
          },
          nb::sig("def finish_reason(self) -> str | None"))
      .def("__repr__", [](const Event& self) {
        return nb::str("Event({!r}, choice={})").format(self.text, self.choice);
      });
}

}  // namespace

void bind_generation(nb::module_& module) {
  bind_requests(module);
  bind_answers(module);
  nb::class_<SharedGenerator>(module, "Generator",
                              "Runs requests side by side: each step decodes one token of every "
                              "running answer and takes prompt tokens of waiting ones.")
      .def(
          "__init__",
          [](SharedGenerator* self, std::shared_ptr<SharedEngine> engine) {
            new (self) SharedGenerator(std::move(engine));
          },
          nb::arg("engine"))
      .def("submit", &SharedGenerator::submit, nb::arg("request"),
           "The request's number, counted from 0.")
      .def("finished", &SharedGenerator::finished, nb::arg("request"),
           "All of its answers have ended: it can be taken, or has been.")
      .def("cancel", &SharedGenerator::cancel, nb::arg("request"), "Ends it at the next step.")
      .def("abandon", &SharedGenerator::abandon, nb::arg("request"),
           "Likewise; its result is dropped.")
      .def("step", &SharedGenerator::step, nb::arg("queues"),
           nb::sig("def step(self, queues: dict[int, collections.deque[Event]]) -> None"),
           "One pass. The events that it brought are appended to the queues of their requests; "
           "those of requests without one are dropped.")
      .def("take", &SharedGenerator::take, nb::arg("request"),
           "The result of a finished request, once.")
      .def_prop_ro(
          "done",
          [](SharedGenerator& self) {
            return self.use([](Generator& generator) { return generator.done(); });
          },
          "Nothing is waiting or running.");
}

}  // namespace phidias::python
