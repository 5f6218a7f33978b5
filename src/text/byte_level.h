// The alphabet of byte-level BPE: each byte is written as one visible character, so that any bytes
// are text.
//   source   bytes_to_unicode of GPT-2: printable Latin-1 stands for itself, the rest is U+0100 and
//   up, in order
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace phidias {

// The character of each byte.
const std::array<char32_t, 256>& byte_characters();

// Bytes to characters of the alphabet, as UTF-8.
std::string bytes_to_alphabet(std::string_view bytes);

// Back again; nullopt if `text` (valid UTF-8) holds a character outside the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace phidias
