#include "conversation.h"

#include <algorithm>

#include "images.h"
#include "output.h"

namespace phidias::cli {

Conversation::Conversation(Engine& engine, Settings settings)
    : engine_(&engine),
      settings_(std::move(settings)),
      sequence_(engine.open({.rope_switch = settings_.rope_switch, .prompt_tokens = 0})) {}

Conversation::~Conversation() { engine_->close(sequence_); }

std::vector<ChatMessage> Conversation::all_messages() const {
  std::vector<ChatMessage> messages;
  if (!settings_.system.empty()) messages.push_back({"system", settings_.system});
  messages.insert(messages.end(), messages_.begin(), messages_.end());
  return messages;
}

Result<ChatPrompt> Conversation::prompt() const {
  const Model& model = engine_->model();
  const std::vector<ChatMessage> messages = all_messages();
  return chat_prompt(*model.tokenizer(), *model.chat_template(), messages, {},
                     settings_.obey_markers, model.info().vision ? &images_ : nullptr);
}

void Conversation::forget_images() {
  auto shown = [this](size_t number) {
    return std::any_of(messages_.begin(), messages_.end(), [&](const ChatMessage& message) {
      return message.content.find(image_tag(number)) != std::string::npos;
    });
  };
  while (!images_.empty() && !shown(images_.size())) images_.pop_back();
}

size_t Conversation::prompt_tokens() const {
  if (messages_.empty()) return 0;
  const auto rendered = prompt();
  return rendered.ok() ? rendered->ids.size() : 0;
}

Result<GenerateResult> Conversation::answer(const std::function<bool(std::string_view)>& show) {
  auto rendered = prompt();
  if (!rendered.ok()) return std::move(rendered).error();
  // Once a conversation: what a template leaves out is the same in every turn.
  if (messages_.size() <= 1) warn_untraced(all_messages(), *rendered);
  GenerateRequest request;
  request.prompt = std::move(rendered->ids);
  request.images = images_;
  request.sampling = settings_.sampling;
  request.max_tokens = settings_.max_tokens;
  request.rope_switch = settings_.rope_switch;
  request.sequence = sequence_;
  auto result =
      generate(*engine_, request, [&show](const GenerateEvent& event) { return show(event.text); });
  if (!result.ok()) return result;
  const Choice& choice = result->choices.front();
  if (choice.error) return *choice.error;
  messages_.push_back({"assistant", choice.text});
  return result;
}

Result<GenerateResult> Conversation::say(std::string_view text,
                                         const std::function<bool(std::string_view)>& show) {
  messages_.push_back({"user", with_image_tags(text, images_.size() + 1, next_images_.size())});
  const size_t known = images_.size();
  images_.insert(images_.end(), next_images_.begin(), next_images_.end());
  auto result = answer(show);
  if (result.ok()) {
    next_images_.clear();
  } else {
    messages_.pop_back();
    images_.resize(known);
  }
  return result;
}

Result<GenerateResult> Conversation::again(const std::function<bool(std::string_view)>& show) {
  if (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
  if (messages_.empty()) return Error{Code::kInvalidArgument, "nothing has been said yet", {}};
  return answer(show);
}

bool Conversation::undo() {
  if (messages_.empty()) return false;
  if (messages_.back().role == "assistant") messages_.pop_back();
  if (!messages_.empty()) messages_.pop_back();
  forget_images();
  return true;
}

}  // namespace phidias::cli
