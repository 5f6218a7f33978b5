// Values as text, the way Python prints them.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace phidias::jinja {

// str(value): strings as they are, undefined as nothing.
void append_text(Budget& budget, const Value& value, std::string& out);
std::string to_text(Budget& budget, const Value& value);
// repr(value): strings in quotes.
void append_repr(Budget& budget, const Value& value, std::string& out);
std::string to_repr(Budget& budget, const Value& value);

std::string float_repr(double value);
std::string integer_text(Integer value, unsigned base = 10);
// A string in Python's quotes.
void append_quoted(std::string_view text, std::string& out);

// The arguments of Python's json.dumps, with the defaults of chat templates.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

void append_json(Budget& budget, const Value& value, const JsonStyle& style, std::string& out);

}  // namespace phidias::jinja
