// The text of a segment before it is cut into words: the normalizers of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"

namespace phidias {

struct PrependText {
  std::string text;  // put in front of what is not empty
};
struct ReplaceText {
  Pattern pattern;
  std::string content;
};
enum class UnicodeForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
struct LowercaseText {};
struct StripText {
  bool left = true;
  bool right = true;  // white space at that end goes
};

// Steps in order. Each takes and gives valid UTF-8, in time linear in the text.
using NormalizerStep =
    std::variant<PrependText, ReplaceText, UnicodeForm, LowercaseText, StripText>;
using Normalizer = std::vector<NormalizerStep>;

std::string normalize(const Normalizer& normalizer, std::string_view text);

}  // namespace phidias
