#include "base/utf8.h"

#include <cstring>

namespace phidias {

Utf8Step read_utf8(std::string_view text, size_t from) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[from + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8State::kCharacter, 1, lead};

  uint8_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0) return {Utf8State::kBroken, 1, 0xFFFD};

  // The second byte alone decides about overlong forms, surrogates and the upper end.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;

  auto code_point = static_cast<char32_t>(lead & (0xFF >> (length + 1)));
  for (uint8_t i = 1; i < length; ++i) {
    if (from + i == text.size()) return {Utf8State::kIncomplete, i, 0xFFFD};
    const unsigned char next = byte(i);
    if (next < low || next > high) return {Utf8State::kBroken, i, 0xFFFD};
    code_point = code_point << 6 | (next & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8State::kCharacter, length, code_point};
}

bool is_valid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at a time: most text is.
    uint64_t block = 0;
    while (at + sizeof block <= text.size()) {
      std::memcpy(&block, text.data() + at, sizeof block);
      if ((block & 0x8080808080808080U) != 0) break;
      at += sizeof block;
    }
    if (at == text.size()) break;
    const Utf8Step step = read_utf8(text, at);
    if (step.state != Utf8State::kCharacter) return false;
    at += step.length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string valid;
  valid.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = read_utf8(text, at);
    valid +=
        step.state == Utf8State::kCharacter ? text.substr(at, step.length) : kReplacementCharacter;
    at += step.length;
  }
  return valid;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace phidias
