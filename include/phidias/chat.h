// Conversations to prompts, by the Jinja template that comes with a checkpoint. A template may be
// hostile: whatever it tries, it ends with an error after bounded work (16 MiB of text, 256 MiB
// touched).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phidias/status.h"

namespace phidias {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct RenderOptions {
  // The text ends where the answer begins.
  bool add_generation_prompt = true;
  // The text ends with the last message's content, whatever add_generation_prompt says.
  bool continue_final_message = false;
};

struct ChatTemplateImpl;

// Immutable and safe to share between threads.
class ChatTemplate {
 public:
  // Jinja source. Errors: kCorrupt, with the line and Jinja's own words.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  // One of the family's templates by name: "phi-3-mini", "phi-3-first", "phi-3-medium",
  // "phi-3-small", "phi-3-vision", "phi-3.5-mini", "phi-4", "phi-4-first", "phi-4-mini",
  // "phi-4-mini-reasoning". kNotFound lists the names.
  static Result<std::shared_ptr<const ChatTemplate>> builtin(std::string_view name);
  static std::vector<std::string> builtin_names();

  explicit ChatTemplate(std::unique_ptr<const ChatTemplateImpl> impl);
  ~ChatTemplate();

  // `tokens` are further variables, such as {"bos_token", "<s>"}.
  // Errors: kInvalidArgument when the template refuses the conversation (the template's own words,
  // no place) or fails (Python's error and the line).
  Result<std::string> render(
      const std::vector<ChatMessage>& messages, const RenderOptions& options,
      const std::vector<std::pair<std::string, std::string>>& tokens = {}) const;
  // The general form. `request` is a JSON object: messages, tools, add_generation_prompt and
  // continue_final_message (false where absent; both at once are an error), any further variables;
  // or "context", an object of the variables in place of all that. A "template" in it is ignored:
  // the caller parses it.
  Result<std::string> render_json(
      std::string_view request,
      const std::vector<std::pair<std::string, std::string>>& tokens = {}) const;

  // Indices of the messages whose text leaves no trace in the prompt, such as a system message
  // where the template knows no such role: the user should be told. Found by rendering once more
  // with a marker in place of each text; empty where that fails, and for a request with a context.
  std::vector<size_t> untraced_messages(
      const std::vector<ChatMessage>& messages, const RenderOptions& options,
      const std::vector<std::pair<std::string, std::string>>& tokens = {}) const;
  std::vector<size_t> untraced_messages_json(
      std::string_view request,
      const std::vector<std::pair<std::string, std::string>>& tokens = {}) const;

  const std::string& source() const;

 private:
  std::unique_ptr<const ChatTemplateImpl> impl_;
};

}  // namespace phidias
