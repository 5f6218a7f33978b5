// UTF-8 as bytes from outside: read step by step, checked, repaired. Characters are Unicode scalar
// values; no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phidias {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State : uint8_t {
  kCharacter,  // `length` bytes are the character `code_point`
  kBroken,     // `length` bytes are the longest part that could have begun a character, and did not
  kIncomplete,  // the text ends after `length` bytes that may still become a character
};

struct Utf8Step {
  Utf8State state = Utf8State::kBroken;
  uint8_t length = 0;
  char32_t code_point = 0xFFFD;
};

// Reads the character at `from`, which must be less than text.size().
//   source   Unicode 15, table 3-7, and "maximal subpart" of section 3.9
Utf8Step read_utf8(std::string_view text, size_t from);

// The character at `from` of text that is known to be valid, and its length in bytes.
inline Utf8Step read_valid_utf8(std::string_view text, size_t from) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[from + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {Utf8State::kCharacter, 1, lead};
  if (lead < 0xE0) return {Utf8State::kCharacter, 2, (lead & 0x1F) << 6 | (byte(1) & 0x3F)};
  if (lead < 0xF0) {
    return {Utf8State::kCharacter, 3,
            (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F)};
  }
  return {Utf8State::kCharacter, 4,
          (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F)};
}

bool is_valid_utf8(std::string_view text);

// One U+FFFD for each broken part; valid text comes back as it was.
std::string to_valid_utf8(std::string_view text);

// `code_point` must be a Unicode scalar value.
void append_utf8(std::string& text, char32_t code_point);

// The Unicode property White_Space (25 characters).
bool is_white_space(char32_t code_point);

}  // namespace phidias
