#include "text/jinja/letter_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

struct CaseText {
  char32_t code;
  const char* text;
};

#include "text/jinja/case_tables.inc"

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr std::string_view kFinalSigma = "\xCF\x82";

// Appends a character in another case: from the table of those that become several, or as utf8proc
// has it.
template <size_t kSize>
void append_mapped(const CaseText (&several)[kSize], utf8proc_int32_t (*convert)(utf8proc_int32_t),
                   std::string_view character, std::string& out) {
  const char32_t code = decode(character);
  const auto at =
      std::lower_bound(std::begin(several), std::end(several), code,
                       [](const CaseText& entry, char32_t c) { return entry.code < c; });
  if (at != std::end(several) && at->code == code) {
    out += at->text;
    return;
  }
  const auto converted = static_cast<char32_t>(convert(static_cast<utf8proc_int32_t>(code)));
  if (converted == code) {
    out += character;
  } else {
    append_utf8(out, converted);
  }
}

void append_upper(std::string_view character, std::string& out) {
  append_mapped(kLongUpper, utf8proc_toupper, character, out);
}

void append_title(std::string_view character, std::string& out) {
  append_mapped(kLongTitle, utf8proc_totitle, character, out);
}

// The character of `text` at `at`. A capital sigma that ends a word has a small letter of its own.
void append_lower(std::string_view text, size_t at, std::string& out) {
  const std::string_view character = character_at(text, at);
  if (decode(character) == kCapitalSigma && is_alpha(decode(character_before(text, at))) &&
      !is_alpha(decode(character_at(text, at + character.size())))) {
    out += kFinalSigma;
    return;
  }
  append_mapped(kLongLower, utf8proc_tolower, character, out);
}

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// Calls append(character, at) for each character.
template <typename Append>
void for_each_character(std::string_view text, Append append) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    append(character, at);
    at += character.size();
  }
}

}  // namespace

std::string upper(std::string_view text) {
  std::string out;
  for_each_character(text,
                     [&](std::string_view character, size_t) { append_upper(character, out); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view, size_t at) { append_lower(text, at, out); });
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view character, size_t at) {
    if (is_upper(decode(character))) {
      append_lower(text, at, out);
    } else {
      append_upper(character, out);
    }
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view character, size_t at) {
    if (at == 0) {
      append_title(character, out);
    } else {
      append_lower(text, at, out);
    }
  });
  return out;
}

std::string title_method(std::string_view text) {
  std::string out;
  bool inside = false;
  for_each_character(text, [&](std::string_view character, size_t at) {
    if (inside) {
      append_lower(text, at, out);
    } else {
      append_title(character, out);
    }
    const char32_t code = decode(character);
    inside = is_upper(code) || is_lower(code);
  });
  return out;
}

std::string title_filter(std::string_view text) {
  std::string out;
  bool inside = false;
  for_each_character(text, [&](std::string_view character, size_t at) {
    const bool separator = std::string_view("-({[<").find(character) != std::string_view::npos ||
                           is_space(decode(character));
    if (separator) {
      out += character;
    } else if (inside) {
      append_lower(text, at, out);
    } else {
      append_upper(character, out);
    }
    inside = !separator;
  });
  return out;
}

bool is_upper(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LL; }
bool is_decimal(char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

bool is_alpha(char32_t code) {
  const utf8proc_category_t kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_printable(char32_t code) {
  const utf8proc_category_t kind = category(code);
  return code == U' ' || (kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS);
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool has_case(std::string_view text, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
  bool found = false;
  bool mixed = false;
  for_each_character(text, [&](std::string_view character, size_t) {
    const char32_t code = decode(character);
    found |= wanted(code);
    mixed |= other(code);
  });
  return found && !mixed;
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const std::string_view first = character_at(text, 0);
    if (!is_space(decode(first))) break;
    text.remove_prefix(first.size());
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const std::string_view last = character_before(text, text.size());
    if (!is_space(decode(last))) break;
    text.remove_suffix(last.size());
  }
  return text;
}

}  // namespace phidias::jinja
