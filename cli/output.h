// What a command writes for people and pipes.
#pragma once

#include <string_view>
#include <vector>

#include "phidias/prompt.h"

namespace phidias::cli {

// Standard output is written and flushed; false when nobody reads it any more.
bool print(std::string_view text);

// Says which messages the template leaves out.
void warn_untraced(const std::vector<ChatMessage>& messages, const ChatPrompt& prompt);

}  // namespace phidias::cli
