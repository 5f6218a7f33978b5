#include "phidias/prompt.h"

#include "base/try.h"
#include "base/utf8.h"

namespace phidias {
namespace {

// A code point that stands for no character (Unicode reserves U+FDD0 to U+FDEF for such uses) and
// is in no message. Should all of them be, which no honest text does, U+FDD0 is lost from the
// messages.
char32_t unused_noncharacter(const std::vector<ChatMessage>& messages) {
  for (char32_t candidate = 0xFDD0; candidate <= 0xFDEF; ++candidate) {
    std::string encoded;
    append_utf8(encoded, candidate);
    bool found = false;
    for (const ChatMessage& message : messages)
      found = found || message.content.find(encoded) != std::string::npos;
    if (!found) return candidate;
  }
  return 0xFDD0;
}

void erase_all(std::string& text, char32_t code_point) {
  std::string encoded;
  append_utf8(encoded, code_point);
  for (size_t at = text.find(encoded); at != std::string::npos; at = text.find(encoded, at))
    text.erase(at, encoded.size());
}

}  // namespace

Result<ChatPrompt> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               const std::vector<ChatMessage>& messages,
                               const RenderOptions& options, bool obey_markers) {
  const char32_t guard = obey_markers ? 0 : unused_noncharacter(messages);
  std::vector<ChatMessage> guarded = messages;
  if (guard != 0) {
    for (ChatMessage& message : guarded)
      message.content = tokenizer.guard_markers(message.content, guard);
  }
  ChatPrompt prompt;
  PHIDIAS_TRY(prompt.text, chat_template.render(guarded, options, tokenizer.template_tokens()));
  prompt.ids =
      tokenizer.encode(prompt.text, {.add_special = false, .markers = true, .guard = guard});
  if (guard != 0) erase_all(prompt.text, guard);
  prompt.untraced = chat_template.untraced_messages(messages, options, tokenizer.template_tokens());
  return prompt;
}

}  // namespace phidias
