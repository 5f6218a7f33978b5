#include "text/jinja/text_search.h"

#include <string.h>

#include <algorithm>

#include "text/jinja/letter_case.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

// Bytes of the line end at `at`; 0 if there is none.
size_t line_end_length(std::string_view text, size_t at) {
  if (text.substr(at, 2) == "\r\n") return 2;
  const std::string_view character = character_at(text, at);
  const char32_t code = decode(character);
  const bool ends = (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) ||
                    code == 0x85 || code == 0x2028 || code == 0x2029;
  return ends ? character.size() : 0;
}

}  // namespace

size_t find_text(std::string_view text, std::string_view sought, size_t from) {
  if (from > text.size() || sought.size() > text.size() - from) return std::string_view::npos;
  if (sought.empty()) return from;
  // The C library's search takes time linear in both lengths.
  const void* at = memmem(text.data() + from, text.size() - from, sought.data(), sought.size());
  if (at == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

size_t find_last_text(std::string_view text, std::string_view sought) {
  if (sought.size() > text.size()) return std::string_view::npos;
  const std::string backwards(text.rbegin(), text.rend());
  const size_t at = find_text(backwards, std::string(sought.rbegin(), sought.rend()));
  return at == std::string_view::npos ? at : text.size() - at - sought.size();
}

std::vector<size_t> find_all(std::string_view text, std::string_view sought, size_t most) {
  std::vector<size_t> places;
  for (size_t at = 0; places.size() < most; at += sought.size()) {
    at = find_text(text, sought, at);
    if (at == std::string_view::npos) break;
    places.push_back(at);
  }
  return places;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    size_t most) {
  std::vector<std::string_view> parts;
  if (!separator.empty()) {
    size_t start = 0;
    for (const size_t at : find_all(text, separator, most)) {
      parts.push_back(text.substr(start, at - start));
      start = at + separator.size();
    }
    parts.push_back(text.substr(start));
    return parts;
  }
  for (text = strip_left(text); !text.empty(); text = strip_left(text)) {
    if (parts.size() == most) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size() && !is_space(decode(character_at(text, end))))
      end += character_at(text, end).size();
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split_from_end(std::string_view text, std::string_view separator,
                                             size_t most) {
  if (!separator.empty()) {
    // From the end, separators that overlap pair up otherwise than from the front.
    const std::string backwards(text.rbegin(), text.rend());
    const std::string reversed(separator.rbegin(), separator.rend());
    std::vector<std::string_view> parts;
    size_t end = text.size();
    for (const size_t at : find_all(backwards, reversed, most)) {
      const size_t start = text.size() - at;
      parts.push_back(text.substr(start, end - start));
      end = start - separator.size();
    }
    parts.push_back(text.substr(0, end));
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  std::vector<std::string_view> parts;
  for (text = strip_right(text); !text.empty(); text = strip_right(text)) {
    if (parts.size() == most) {
      parts.push_back(text);
      break;
    }
    size_t start = text.size();
    while (start > 0) {
      const std::string_view character = character_before(text, start);
      if (is_space(decode(character))) break;
      start -= character.size();
    }
    parts.push_back(text.substr(start));
    text = text.substr(0, start);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = line_end_length(text, at);
    if (length == 0) {
      at += character_at(text, at).size();
      continue;
    }
    lines.push_back(text.substr(start, at - start + (keep_ends ? length : 0)));
    at += length;
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string_view strip_left(std::string_view text, std::string_view set) {
  while (!text.empty()) {
    const std::string_view first = character_at(text, 0);
    if (set.find(first) == set.npos) break;
    text.remove_prefix(first.size());
  }
  return text;
}

std::string_view strip_right(std::string_view text, std::string_view set) {
  while (!text.empty()) {
    const std::string_view last = character_before(text, text.size());
    if (set.find(last) == set.npos) break;
    text.remove_suffix(last.size());
  }
  return text;
}

}  // namespace phidias::jinja
