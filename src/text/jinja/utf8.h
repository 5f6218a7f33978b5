// Characters of UTF-8 text. A character is a lead byte and the continuation bytes after it, so that
// damaged text is taken apart and put together without loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace phidias::jinja {

inline bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// The character that starts at `at`; empty at the end.
inline std::string_view character_at(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  size_t end = at + 1;
  while (end < text.size() && is_continuation(text[end])) ++end;
  return text.substr(at, end - at);
}

// The character that ends before `end`; empty at the beginning.
inline std::string_view character_before(std::string_view text, size_t end) {
  size_t at = end;
  while (at > 0) {
    --at;
    if (!is_continuation(text[at])) break;
  }
  return text.substr(at, end - at);
}

inline size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += character_at(text, at).size();
  return count;
}

inline std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (size_t at = 0; at < text.size(); at += all.back().size()) {
    all.push_back(character_at(text, at));
  }
  return all;
}

// U+FFFD for what is no valid character.
inline char32_t decode(std::string_view character) {
  if (character.empty()) return U'\uFFFD';
  const Utf8Step step = read_utf8(character, 0);
  return step.length == character.size() ? step.code_point : U'\uFFFD';
}

// U+FFFD in place of a surrogate or what is no code point at all.
inline void append_character(std::string& out, char32_t code) {
  const bool scalar = code < 0xD800 || (code >= 0xE000 && code <= 0x10FFFF);
  append_utf8(out, scalar ? code : U'\uFFFD');
}

}  // namespace phidias::jinja
