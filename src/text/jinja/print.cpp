#include "text/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/letter_case.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void append_hex(char32_t code, int digits, std::string& out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHexDigits[code >> shift & 0xF];
}

void append_items(Budget& budget, const std::vector<Value>& items, std::string& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(budget, items[i], out);
  }
}

void append_range(const Sequence& range, std::string& out) {
  const auto item = [&](size_t i) { return *range.items[i].integer(); };
  const size_t count = range.items.size();
  const Integer step = count > 1 ? item(1) - item(0) : 1;
  const Integer start = count > 0 ? item(0) : 0;
  const Integer stop = count > 0 ? item(count - 1) + step : 0;
  out += "range(" + integer_text(start) + ", " + integer_text(stop);
  if (step != 1) out += ", " + integer_text(step);
  out += ')';
}

void append_sequence(Budget& budget, const Sequence& list, std::string& out) {
  switch (list.kind) {
    case SequenceKind::kTuple:
    case SequenceKind::kGroup:
      out += '(';
      append_items(budget, list.items, out);
      out += list.items.size() == 1 ? ",)" : ")";
      return;
    case SequenceKind::kRange:
      return append_range(list, out);
    case SequenceKind::kGenerator:
      out += "<generator object>";
      return;
    case SequenceKind::kKeys:
      out += "dict_keys(";
      break;
    case SequenceKind::kValues:
      out += "dict_values(";
      break;
    case SequenceKind::kItems:
      out += "dict_items(";
      break;
    case SequenceKind::kList:
      break;
  }
  out += '[';
  append_items(budget, list.items, out);
  out += list.kind == SequenceKind::kList ? "]" : "])";
}

void append_json_string(std::string_view text, bool ensure_ascii, std::string& out) {
  const auto escape = [&out](char32_t code) {
    out += "\\u";
    append_hex(code, 4, out);
  };
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    at += character.size();
    const char c = character[0];
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    if (const size_t which = kEscaped.find(c); which != kEscaped.npos) {
      out += '\\';
      out += "\"\\nrtbf"[which];
    } else if (static_cast<uint8_t>(c) < 0x20) {
      escape(static_cast<uint8_t>(c));
    } else if (static_cast<uint8_t>(c) < 0x80 || !ensure_ascii) {
      out += character;
    } else if (const char32_t code = decode(character); code < 0x10000) {
      escape(code);
    } else {
      escape(0xD800 + ((code - 0x10000) >> 10));
      escape(0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  out += '"';
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style, std::string& out)
      : budget_(budget), style_(style), out_(out) {}

  void write(const Value& value, size_t level) {
    const Budget::Level guard(budget_);
    budget_.charge(Budget::kStep);
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.truthy() ? "true" : "false";
    } else if (value.is_float()) {
      write_float(*value.number());
    } else if (const auto whole = value.integer()) {
      out_ += integer_text(*whole);
    } else if (const Text* text = value.text()) {
      budget_.charge(text->bytes.size());
      append_json_string(text->bytes, style_.ensure_ascii, out_);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict, level);
    } else if (const Sequence* list = value.sequence();
               list != nullptr && (list->is_tuple() || list->kind == SequenceKind::kList)) {
      write_block('[', ']', list->items.size(), level,
                  [&](size_t i) { write(list->items[i], level + 1); });
    } else {
      fail_type("Object of type " + std::string(value.type_name()) + " is not JSON serializable");
    }
  }

 private:
  template <typename WriteItem>
  void write_block(char open, char close, size_t count, size_t level, WriteItem write_item) {
    out_ += open;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_ += style_.item_separator;
      break_line(level + 1);
      budget_.charge(style_.item_separator.size() + style_.key_separator.size());
      write_item(i);
    }
    if (count > 0) break_line(level);
    out_ += close;
  }

  void break_line(size_t level) {
    if (!style_.indent) return;
    budget_.charge(level, style_.indent->size());
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void write_float(double value) {
    if (std::isnan(value)) {
      out_ += "NaN";
    } else if (std::isinf(value)) {
      out_ += value > 0 ? "Infinity" : "-Infinity";
    } else {
      out_ += float_repr(value);
    }
  }

  std::string key_text(const Value& key) {
    if (key.text() != nullptr) return key.text()->bytes;
    std::string text;
    if (!key.is_none() && !key.number()) {
      fail_type("keys must be str, int, float, bool or None, not " + std::string(key.type_name()));
    }
    JsonWriter(budget_, style_, text).write(key, 0);
    return text;
  }

  void write_dict(const Dict& dict, size_t level) {
    std::vector<std::pair<std::string, const Value*>> entries;
    for (const auto& [key, value] : dict.entries) entries.emplace_back(key_text(key), &value);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto& a, const auto& b) {
        budget_.charge(std::min(a.first.size(), b.first.size()) + 1);
        return a.first < b.first;
      });
    }
    write_block('{', '}', entries.size(), level, [&](size_t i) {
      budget_.charge(entries[i].first.size());
      append_json_string(entries[i].first, style_.ensure_ascii, out_);
      out_ += style_.key_separator;
      write(*entries[i].second, level + 1);
    });
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string& out_;
};

}  // namespace

std::string integer_text(Integer value, unsigned base) {
  const bool negative = value < 0;
  unsigned __int128 rest =
      negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  do {
    digits += kHexDigits[static_cast<unsigned>(rest % base)];
    rest /= base;
  } while (rest != 0);
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that read back as the same number, as d.ddde[+-]xx.
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* first = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(first, shortest.data() + shortest.size(), exponent);
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    const std::string magnitude = std::to_string(std::abs(exponent));
    return out + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  out += digits.substr(0, whole) + ".";
  return out + (digits.size() > whole ? digits.substr(whole) : "0");
}

void append_quoted(std::string_view text, std::string& out) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quotes ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    at += character.size();
    const char32_t code = decode(character);
    constexpr std::string_view kEscaped = "\n\r\t";
    if (character[0] == quote || character[0] == '\\') {
      out += '\\';
      out += character[0];
    } else if (const size_t which = kEscaped.find(character[0]); which != kEscaped.npos) {
      out += '\\';
      out += "nrt"[which];
    } else if (is_printable(code)) {
      out += character;
    } else {
      out += code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
      append_hex(code, code < 0x100 ? 2 : code < 0x10000 ? 4 : 8, out);
    }
  }
  out += quote;
}

void append_repr(Budget& budget, const Value& value, std::string& out) {
  const Budget::Level level(budget);
  budget.charge(Budget::kStep);
  if (const Text* text = value.text()) {
    budget.charge(text->bytes.size(), 4);
    if (text->safe) out += "Markup(";
    append_quoted(text->bytes, out);
    if (text->safe) out += ')';
  } else if (value.undefined() != nullptr) {
    out += "Undefined";
  } else if (const Sequence* list = value.sequence()) {
    append_sequence(budget, *list, out);
  } else if (const Dict* dict = value.dict()) {
    out += '{';
    bool first = true;
    for (const auto& [key, entry] : dict->entries) {
      if (!first) out += ", ";
      first = false;
      append_repr(budget, key, out);
      out += ": ";
      append_repr(budget, entry, out);
    }
    out += '}';
  } else if (const Function* function = value.function()) {
    out += "<function " + std::string(function->name) + ">";
  } else if (Object* object = value.object()) {
    object->print(budget, out);
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_bool()) {
    out += value.truthy() ? "True" : "False";
  } else if (value.is_float()) {
    out += float_repr(*value.number());
  } else {
    out += integer_text(*value.integer());
  }
}

std::string to_repr(Budget& budget, const Value& value) {
  std::string out;
  append_repr(budget, value, out);
  return out;
}

void append_text(Budget& budget, const Value& value, std::string& out) {
  if (const Text* text = value.text()) {
    budget.charge(text->bytes.size());
    out += text->bytes;
  } else if (value.undefined() == nullptr) {
    append_repr(budget, value, out);
  }
}

std::string to_text(Budget& budget, const Value& value) {
  std::string out;
  append_text(budget, value, out);
  return out;
}

void append_json(Budget& budget, const Value& value, const JsonStyle& style, std::string& out) {
  JsonWriter(budget, style, out).write(value, 0);
}

}  // namespace phidias::jinja
