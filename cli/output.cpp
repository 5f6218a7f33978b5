#include "output.h"

#include <cstdio>

namespace phidias::cli {

bool print(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

void warn_untraced(const std::vector<ChatMessage>& messages, const ChatPrompt& prompt) {
  for (const size_t index : prompt.untraced) {
    std::fprintf(
        stderr,
        "warning: the chat template leaves out message %zu (%s); the model does not see it\n",
        index + 1, messages[index].role.c_str());
  }
}

}  // namespace phidias::cli
