#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/format.h"
#include "text/jinja/letter_case.h"
#include "text/jinja/native_table.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_natives.h"
#include "text/jinja/text_search.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

bool is_safe(const Value& value) { return value.text() != nullptr && value.text()->safe; }

// The filters that turn one string into another: a safe one stays safe.
template <std::string (*kConvert)(std::string_view)>
Value convert(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("filter", arguments, {});
  return runtime.text(kConvert(runtime.to_text(self)), is_safe(self));
}

Value trim(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const std::string text = runtime.to_text(self);
  return runtime.text(std::string(strip_text(runtime, text, bound.text(0), true, true)),
                      is_safe(self));
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  std::optional<Integer> count;
  if (bound.given(2)) count = bound.integer(2, -1);
  return runtime.text(replace_text(runtime, runtime.to_text(self), runtime.to_text(bound.value(0)),
                                   runtime.to_text(bound.value(1)), count));
}

Value indent(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  std::string indention;
  if (const Value* width = bound.get(0); width != nullptr && width->text() != nullptr) {
    indention = width->text()->bytes;
  } else {
    const Integer spaces = std::clamp<Integer>(bound.integer(0, 4), 0, Integer{kMaxOutputBytes});
    runtime.budget().charge(static_cast<size_t>(spaces));
    indention.assign(static_cast<size_t>(spaces), ' ');
  }
  if (self.undefined() != nullptr) fail_undefined(*self.undefined());
  if (self.text() == nullptr) {
    fail_type("unsupported operand type(s) for +=: '" + std::string(self.type_name()) +
              "' and 'str'");
  }
  const bool blank = bound.truth(2);
  const std::string text = self.text()->bytes + "\n";
  runtime.budget().charge(text.size(), sizeof(std::string_view));
  std::string out;
  if (bound.truth(1)) out += indention;
  bool first = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first) {
      out += '\n';
      runtime.budget().charge(indention.size());
      if (blank || !line.empty()) out += indention;
    }
    first = false;
    out += line;
  }
  return runtime.text(std::move(out), is_safe(self));
}

Value truncate(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string end = bound.text(2).value_or("...");
  const Integer most = bound.integer(0, 255);
  const Integer leeway = bound.given(3) ? bound.integer(3, 0) : 5;
  const auto end_length = static_cast<Integer>(count_characters(end));
  if (most < end_length) {
    fail("AssertionError",
         "expected length >= " + integer_text(end_length) + ", got " + integer_text(most));
  }
  if (leeway < 0) fail("AssertionError", "expected leeway >= 0, got " + integer_text(leeway));
  if (static_cast<Integer>(length(runtime, self)) - leeway <= most) return self;
  if (self.text() == nullptr) {
    fail_type("only text can be truncated, not " + std::string(self.type_name()));
  }
  const std::string& text = self.text()->bytes;
  size_t cut = 0;
  for (Integer i = 0; i < most - end_length; ++i) cut += character_at(text, cut).size();
  std::string kept = text.substr(0, cut);
  if (!bound.truth(1)) kept.resize(std::min(kept.rfind(' '), kept.size()));
  return runtime.text(kept + end);
}

Value center(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  return runtime.text(
      justify(runtime, runtime.to_text(self), bound.integer(0, 80), " ", Justify::kCenter),
      is_safe(self));
}

Value wordcount(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("wordcount", arguments, {});
  const std::string text = runtime.to_text(self);
  size_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    at += character.size();
    const char32_t code = decode(character);
    const bool is_word = code == U'_' || is_alpha(code) || is_decimal(code);
    if (is_word && !inside) ++words;
    inside = is_word;
  }
  return Value::from_size(words);
}

Value format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("FilterArgumentError", "can't handle positional and keyword arguments at the same time");
  }
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : arguments.named) named.emplace_back(runtime.text(name), value);
  const Value values = named.empty() ? runtime.list(arguments.positional, SequenceKind::kTuple)
                                     : runtime.dict(std::move(named));
  return percent_format(runtime, runtime.to_text(self), values);
}

Value force_escape(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("escape", arguments, {});
  const std::string text = runtime.to_text(self);
  runtime.budget().charge(text.size(), 5);
  return runtime.text(escape_html(text), true);
}

Value escape(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return is_safe(self) ? self : force_escape(runtime, self, arguments);
}

Value safe(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("safe", arguments, {});
  return runtime.text(runtime.to_text(self), true);
}

Value string(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("string", arguments, {});
  return self.text() != nullptr ? self : runtime.text(runtime.to_text(self));
}

Value tojson(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.truth(0);
  style.sort_keys = bound.truth(3);
  if (bound.given(1)) {
    style.item_separator = ",";
    if (const auto spaces = bound.value(1).integer()) {
      const auto width = static_cast<size_t>(std::clamp<Integer>(*spaces, 0, 1000));
      style.indent = std::string(width, ' ');
    } else {
      style.indent = bound.text(1);
    }
  }
  if (bound.given(2)) {
    const std::vector<Value> pair = iterate(runtime, bound.value(2));
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr) {
      fail_value("separators must be a pair of strings");
    }
    style.item_separator = pair[0].text()->bytes;
    style.key_separator = pair[1].text()->bytes;
  }
  std::string out;
  append_json(runtime.budget(), self, style, out);
  return runtime.text(std::move(out));
}

Value urlencode(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("urlencode", arguments, {});
  const std::string text = runtime.to_text(self);
  runtime.budget().charge(text.size(), 3);
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      constexpr char kDigits[] = "0123456789ABCDEF";
      out += {'%', kDigits[static_cast<uint8_t>(c) >> 4], kDigits[static_cast<uint8_t>(c) & 0xF]};
    }
  }
  return runtime.text(std::move(out));
}

constexpr NamedNative kFilters[] = {
    {"upper", convert<upper>},
    {"lower", convert<lower>},
    {"capitalize", convert<capitalize>},
    {"title", convert<title_filter>},
    {"trim", trim},
    {"replace", replace},
    {"indent", indent},
    {"truncate", truncate},
    {"center", center},
    {"wordcount", wordcount},
    {"format", format},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"safe", safe},
    {"string", string},
    {"tojson", tojson},
    {"urlencode", urlencode},
};

}  // namespace

std::string replace_text(Runtime& runtime, std::string_view text, std::string_view old_text,
                         std::string_view new_text, std::optional<Integer> count) {
  const size_t most = count && *count >= 0
                          ? static_cast<size_t>(std::min<Integer>(*count, Integer{kMaxOutputBytes}))
                          : kNoLimit;
  runtime.budget().charge(text.size() + old_text.size(), sizeof(size_t) + 1);
  std::vector<size_t> places;
  if (!old_text.empty()) {
    places = find_all(text, old_text, most);
  } else {
    // Between all characters, and around them.
    for (size_t at = 0; places.size() < most; at += character_at(text, at).size()) {
      places.push_back(at);
      if (at == text.size()) break;
    }
  }
  runtime.budget().charge(places.size(), new_text.size());
  std::string out;
  size_t start = 0;
  for (const size_t at : places) {
    out += text.substr(start, at - start);
    out += new_text;
    start = at + old_text.size();
  }
  out += text.substr(start);
  return out;
}

std::string_view strip_text(Runtime& runtime, std::string_view text,
                            const std::optional<std::string>& set, bool left, bool right) {
  runtime.budget().charge(text.size(), 1 + (set ? set->size() / 8 : 0));
  if (left) text = set ? strip_left(text, *set) : strip_left(text);
  if (right) text = set ? strip_right(text, *set) : strip_right(text);
  return text;
}

std::string justify(Runtime& runtime, std::string_view text, Integer width, std::string_view fill,
                    Justify how) {
  const auto length = static_cast<Integer>(count_characters(text));
  if (count_characters(fill) != 1)
    fail_type("The fill character must be exactly one character long");
  if (width <= length) return std::string(text);
  const auto missing = static_cast<size_t>(std::min(width - length, Integer{kMaxOutputBytes} + 1));
  runtime.budget().charge(missing, fill.size() * Budget::kStep);
  // Where the padding cannot be even, Python's str.center decides by the width.
  const size_t uneven = missing & static_cast<size_t>(width & 1) & 1;
  const size_t before = how == Justify::kLeft    ? 0
                        : how == Justify::kRight ? missing
                                                 : missing / 2 + uneven;
  std::string out;
  for (size_t i = 0; i < before; ++i) out += fill;
  out += text;
  for (size_t i = before; i < missing; ++i) out += fill;
  return out;
}

Native find_text_filter(std::string_view name) { return find_native(kFilters, name); }

}  // namespace phidias::jinja
