#include "formats/carried_files.h"

#include <array>

namespace phidias {
namespace {

constexpr std::string_view kTokenizer = "tokenizer.json";
constexpr std::array<std::string_view, 10> kNames = {kTokenizer,
                                                     "cl100k_base.tiktoken",
                                                     "config.json",
                                                     "generation_config.json",
                                                     "tokenizer_config.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "chat_template.jinja",
                                                     "chat_template.json",
                                                     "preprocessor_config.json"};

}  // namespace

std::span<const std::string_view> carried_file_names() { return kNames; }

std::string carried_file_key(std::string_view name) {
  if (name == kTokenizer) return "tokenizer.huggingface.json";
  return "phidias.file." + std::string(name);
}

}  // namespace phidias
