// From a conversation to the ids that a model is given.
#pragma once

#include <string>
#include <vector>

#include "phidias/chat.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

struct ChatPrompt {
  std::string text;  // as the template renders it
  std::vector<TokenId> ids;
  std::vector<size_t> untraced;  // messages that the template leaves out: the user should be told
};

// Renders the conversation and encodes the whole text, without special tokens beyond the template's
// own.
//   obey_markers   false: markers that a message spells out stay ordinary text, so that nobody can
//   close a turn or
//                  forge another from inside one; true: they act, as with transformers'
//                  apply_chat_template
// Errors: those of ChatTemplate::render.
Result<ChatPrompt> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               const std::vector<ChatMessage>& messages,
                               const RenderOptions& options = {}, bool obey_markers = false);

}  // namespace phidias
