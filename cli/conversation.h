// The state of a chat: what was said, the model's cache of it, and how to answer. Knows nothing of
// terminals.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/engine.h"
#include "phidias/generation.h"
#include "phidias/prompt.h"

namespace phidias::cli {

// One thread at a time. The engine must outlive it.
class Conversation {
 public:
  struct Settings {
    std::string system;
    SamplingOptions sampling;
    uint32_t max_tokens = 0;
    RopeSwitch rope_switch = RopeSwitch::kReprefill;
    bool obey_markers = false;
  };

  Conversation(Engine& engine, Settings settings);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  Settings& settings() { return settings_; }
  const std::vector<ChatMessage>& messages() const { return messages_; }
  // Tokens of the prompt that asking again would give; 0 for an empty conversation.
  size_t prompt_tokens() const;

  // Adds a user's message and answers it; pieces of the answer come through `show`, false stops it.
  // What was said so far stays in the cache and is not run again. An answer that was stopped stays
  // as far as it came; after an error the message is taken back.
  Result<GenerateResult> say(std::string_view text,
                             const std::function<bool(std::string_view)>& show);
  // Answers the last message anew. kInvalidArgument where there is none.
  Result<GenerateResult> again(const std::function<bool(std::string_view)>& show);
  // Takes back the last message and its answer; false where there is none.
  bool undo();
  void reset() { load({}); }
  void load(std::vector<ChatMessage> messages) {
    messages_ = std::move(messages);
    forget_images();
  }
  // An image that the next message shows.
  void show(ImageHandle image) { next_images_.push_back(std::move(image)); }

 private:
  std::vector<ChatMessage> all_messages() const;
  Result<ChatPrompt> prompt() const;
  // Those at the end that no message has a tag for any more.
  void forget_images();
  Result<GenerateResult> answer(const std::function<bool(std::string_view)>& show);

  Engine* engine_;
  Settings settings_;
  SequenceId sequence_;
  std::vector<ChatMessage> messages_;  // without the system message
  std::vector<ImageHandle> images_;    // that the messages have tags for
  std::vector<ImageHandle> next_images_;
};

}  // namespace phidias::cli
