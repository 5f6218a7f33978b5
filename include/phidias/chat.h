// Conversations to prompts, by the Jinja template that comes with a checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct RenderOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the text ends with the last message's content
};

struct ChatTemplateImpl;

// Immutable and safe to share between threads.
class ChatTemplate {
 public:
  // Jinja source. Errors: kCorrupt, with the line and Jinja's own words.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  // One of the family's templates by name: "phi-3-mini", "phi-3-medium", "phi-3-small", "phi-3-vision", "phi-3.5-mini",
  // "phi-4", "phi-4-mini", "phi-4-mini-reasoning". kNotFound lists the names.
  static Result<std::shared_ptr<const ChatTemplate>> builtin(std::string_view name);
  static std::vector<std::string> builtin_names();

  explicit ChatTemplate(std::unique_ptr<const ChatTemplateImpl> impl);
  ~ChatTemplate();

  // Errors: kInvalidArgument when the template refuses the conversation (its own message) or fails.
  Result<std::string> render(const std::vector<ChatMessage>& messages, const RenderOptions& options,
                             const std::vector<std::pair<std::string, std::string>>& tokens = {}) const;
  // The general form. `request` is a JSON object: messages, tools, add_generation_prompt, continue_final_message,
  // any further variables; or "context", an object of variables in place of messages.
  Result<std::string> render_json(std::string_view request,
                                  const std::vector<std::pair<std::string, std::string>>& tokens = {}) const;
  const std::string& source() const;

 private:
  std::unique_ptr<const ChatTemplateImpl> impl_;
};

}  // namespace phidias
