// Methods of Python's str, list, tuple and dict.
#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/format.h"
#include "text/jinja/letter_case.h"
#include "text/jinja/native_table.h"
#include "text/jinja/natives.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_natives.h"
#include "text/jinja/text_search.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

// The string that a method belongs to, charged for being read through.
const std::string& text_of(Runtime& runtime, const Value& self) {
  runtime.budget().charge(self.text()->bytes.size());
  return self.text()->bytes;
}

Value same_kind(Runtime& runtime, const Value& self, std::string text) {
  return runtime.text(std::move(text), self.text()->safe);
}

template <std::string (*kConvert)(std::string_view)>
Value convert(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("str method", arguments, {});
  return same_kind(runtime, self, kConvert(text_of(runtime, self)));
}

template <bool kLeft, bool kRight>
Value strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"});
  const std::string_view stripped =
      strip_text(runtime, text_of(runtime, self), bound.text(0), kLeft, kRight);
  return same_kind(runtime, self, std::string(stripped));
}

size_t limit(const Bound& bound, size_t i) {
  const Integer most = bound.integer(i, -1);
  return most < 0 ? kNoLimit
                  : static_cast<size_t>(std::min<Integer>(most, Integer{kMaxOutputBytes}));
}

Value list_of(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts,
              SequenceKind kind = SequenceKind::kList) {
  std::vector<Value> items;
  for (const std::string_view part : parts)
    items.push_back(same_kind(runtime, self, std::string(part)));
  return runtime.list(std::move(items), kind);
}

template <std::vector<std::string_view> (*kSplit)(std::string_view, std::string_view, size_t)>
Value split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const auto separator = bound.text(0);
  if (separator && separator->empty()) fail_value("empty separator");
  const std::string& text = text_of(runtime, self);
  runtime.budget().charge(text.size(), sizeof(std::string_view));
  return list_of(runtime, self, kSplit(text, separator.value_or(""), limit(bound, 1)));
}

Value split_lines_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  const std::string& text = text_of(runtime, self);
  runtime.budget().charge(text.size(), sizeof(std::string_view));
  return list_of(runtime, self, split_lines(text, bound.truth(0)));
}

template <bool kLast>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const std::string separator = bound.text(0).value_or("");
  if (separator.empty()) fail_value("empty separator");
  const std::string_view text = text_of(runtime, self);
  const size_t at = kLast ? find_last_text(text, separator) : find_text(text, separator);
  if (at == text.npos) {
    return kLast ? list_of(runtime, self, {"", "", text}, SequenceKind::kTuple)
                 : list_of(runtime, self, {text, "", ""}, SequenceKind::kTuple);
  }
  return list_of(runtime, self, {text.substr(0, at), separator, text.substr(at + separator.size())},
                 SequenceKind::kTuple);
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  std::optional<Integer> count;
  if (bound.given(2)) count = bound.integer(2, -1);
  return same_kind(runtime, self,
                   replace_text(runtime, text_of(runtime, self), bound.text(0).value_or(""),
                                bound.text(1).value_or(""), count));
}

// The part of a string that the arguments start and end leave, and the characters before it.
struct Window {
  std::string_view text;
  size_t characters_before = 0;
  bool exists = true;
};

Window window(const std::string& text, const Bound& bound, size_t first) {
  if (!bound.given(first) && !bound.given(first + 1)) return {text};
  const auto count = static_cast<Integer>(count_characters(text));
  const auto position = [&](size_t i, Integer fallback) {
    Integer at = bound.given(i) ? bound.integer(i, fallback) : fallback;
    if (at < 0) at = std::max<Integer>(at + count, 0);
    return std::min(at, count + 1);
  };
  const Integer start = position(first, 0);
  const Integer end = std::min(position(first + 1, count), count);
  if (start > end) return {{}, 0, false};
  size_t from = 0;
  for (Integer i = 0; i < start; ++i) from += character_at(text, from).size();
  size_t to = from;
  for (Integer i = start; i < end; ++i) to += character_at(text, to).size();
  return {std::string_view(text).substr(from, to - from), static_cast<size_t>(start)};
}

Integer find_position(Runtime& runtime, const Value& self, const Arguments& arguments, bool last) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  const std::string sought = bound.text(0).value_or("");
  const Window part = window(text_of(runtime, self), bound, 1);
  if (!part.exists) return -1;
  const size_t at = last ? find_last_text(part.text, sought) : find_text(part.text, sought);
  if (at == part.text.npos) return -1;
  return static_cast<Integer>(part.characters_before) +
         static_cast<Integer>(count_characters(part.text.substr(0, at)));
}

template <bool kLast>
Value find_method_of_text(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Value(find_position(runtime, self, arguments, kLast));
}

template <bool kLast>
Value index_of_text(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Integer at = find_position(runtime, self, arguments, kLast);
  if (at < 0) fail_value("substring not found");
  return Value(at);
}

Value count_in_text(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  const std::string sought = bound.text(0).value_or("");
  const Window part = window(text_of(runtime, self), bound, 1);
  if (!part.exists) return Value(Integer{0});
  if (sought.empty()) return Value::from_size(count_characters(part.text) + 1);
  runtime.budget().charge(part.text.size(), sizeof(size_t));
  return Value::from_size(find_all(part.text, sought).size());
}

template <bool kAtEnd>
Value has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound(kAtEnd ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  const Window part = window(text_of(runtime, self), bound, 1);
  const auto matches = [&](const Value& affix) {
    if (affix.text() == nullptr) {
      fail_type(std::string(kAtEnd ? "endswith" : "startswith") +
                " first arg must be str or a tuple of str, not " + std::string(affix.type_name()));
    }
    const std::string& sought = affix.text()->bytes;
    if (!part.exists || sought.size() > part.text.size()) return false;
    return part.text.substr(kAtEnd ? part.text.size() - sought.size() : 0, sought.size()) == sought;
  };
  const Value affix = bound.value(0);
  if (affix.sequence() == nullptr || !affix.sequence()->is_tuple()) return Value(matches(affix));
  const std::vector<Value> choices = iterate(runtime, affix);
  return Value(std::any_of(choices.begin(), choices.end(), matches));
}

template <bool kAtEnd>
Value remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("removeprefix", arguments, {"prefix"}, 1);
  const std::string affix = bound.text(0).value_or("");
  std::string_view text = text_of(runtime, self);
  if (affix.size() <= text.size()) {
    if (kAtEnd && text.substr(text.size() - affix.size()) == affix)
      text.remove_suffix(affix.size());
    if (!kAtEnd && text.substr(0, affix.size()) == affix) text.remove_prefix(affix.size());
  }
  return same_kind(runtime, self, std::string(text));
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  const std::string& separator = self.text()->bytes;
  std::string out;
  size_t i = 0;
  for (const Value& item : iterate(runtime, bound.value(0))) {
    if (item.text() == nullptr) {
      fail_type("sequence item " + std::to_string(i) + ": expected str instance, " +
                std::string(item.type_name()) + " found");
    }
    runtime.budget().charge(separator.size() + item.text()->bytes.size());
    if (i++ > 0) out += separator;
    out += item.text()->bytes;
  }
  return same_kind(runtime, self, std::move(out));
}

template <Justify kHow>
Value justify_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("ljust", arguments, {"width", "fillchar"}, 1);
  return same_kind(runtime, self,
                   justify(runtime, text_of(runtime, self), bound.integer(0, 0),
                           bound.text(1).value_or(" "), kHow));
}

Value zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  const std::string& text = text_of(runtime, self);
  const bool is_signed = !text.empty() && (text[0] == '-' || text[0] == '+');
  const std::string sign = is_signed ? text.substr(0, 1) : "";
  const Integer width = bound.integer(0, 0) - (is_signed ? 1 : 0);
  return same_kind(runtime, self,
                   sign + justify(runtime, text.substr(sign.size()), width, "0", Justify::kRight));
}

Value expand_tabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("expandtabs", arguments, {"tabsize"});
  const auto size = static_cast<size_t>(std::clamp<Integer>(bound.integer(0, 8), 0, 1000));
  std::string out;
  size_t column = 0;
  for (const char c : text_of(runtime, self)) {
    if (c == '\t') {
      const size_t spaces = size > 0 ? size - column % size : 0;
      runtime.budget().charge(spaces);
      out.append(spaces, ' ');
      column += spaces;
      continue;
    }
    out += c;
    if (!is_continuation(c)) column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return same_kind(runtime, self, std::move(out));
}

// True for a string that is not empty and whose every character is of the class.
template <bool (*kHolds)(char32_t)>
Value all_characters(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("str method", arguments, {});
  const std::string& text = text_of(runtime, self);
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    if (!kHolds(decode(character))) return Value(false);
    at += character.size();
  }
  return Value(!text.empty());
}

bool is_alphanumeric(char32_t code) { return is_alpha(code) || is_decimal(code); }

Value is_ascii(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("isascii", arguments, {});
  const std::string& text = text_of(runtime, self);
  return Value(
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; }));
}

Value is_lower_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("islower", arguments, {});
  return Value(has_case(text_of(runtime, self), is_lower, is_upper));
}

Value is_upper_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("isupper", arguments, {});
  return Value(has_case(text_of(runtime, self), is_upper, is_lower));
}

Value is_title(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("istitle", arguments, {});
  const std::string& text = text_of(runtime, self);
  const bool cased = upper(text) != lower(text);
  return Value(cased && title_method(text) == text);
}

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return brace_format(runtime, self.text()->bytes, arguments);
}

constexpr NamedNative kTextMethods[] = {
    {"upper", convert<upper>},
    {"lower", convert<lower>},
    {"casefold", convert<lower>},
    {"capitalize", convert<capitalize>},
    {"title", convert<title_method>},
    {"swapcase", convert<swap_case>},
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split_method<split>},
    {"rsplit", split_method<split_from_end>},
    {"splitlines", split_lines_method},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"replace", replace},
    {"find", find_method_of_text<false>},
    {"rfind", find_method_of_text<true>},
    {"index", index_of_text<false>},
    {"rindex", index_of_text<true>},
    {"count", count_in_text},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"join", join},
    {"ljust", justify_method<Justify::kLeft>},
    {"rjust", justify_method<Justify::kRight>},
    {"center", justify_method<Justify::kCenter>},
    {"zfill", zfill},
    {"expandtabs", expand_tabs},
    {"isalpha", all_characters<is_alpha>},
    {"isdigit", all_characters<is_decimal>},
    {"isdecimal", all_characters<is_decimal>},
    {"isnumeric", all_characters<is_decimal>},
    {"isalnum", all_characters<is_alphanumeric>},
    {"isspace", all_characters<is_space>},
    {"isascii", is_ascii},
    {"islower", is_lower_method},
    {"isupper", is_upper_method},
    {"istitle", is_title},
    {"format", format_method},
};

// ------------------------------------------------------------------------------------------ list
// and tuple

Value index_in_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equals(runtime.budget(), items[i], bound.value(0))) return Value::from_size(i);
  }
  if (self.sequence()->is_tuple()) fail_value("tuple.index(x): x not in tuple");
  fail_value(to_repr(runtime.budget(), bound.value(0)) + " is not in list");
}

Value count_in_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.sequence()->items;
  return Value::from_size(
      static_cast<size_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return equals(runtime.budget(), item, bound.value(0));
      })));
}

Value copy(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound none("copy", arguments, {});
  return self;  // values do not change
}

constexpr NamedNative kListMethods[] = {
    {"index", index_in_list},
    {"count", count_in_list},
    {"copy", copy},
};

// ----------------------------------------------------------------------------------------------------
// dict

Value get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  const Value* found = find(runtime.budget(), *self.dict(), bound.value(0));
  return found != nullptr ? *found : bound.value(1);
}

Value keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("keys", arguments, {});
  return runtime.list(iterate(runtime, self), SequenceKind::kKeys);
}

Value values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("values", arguments, {});
  std::vector<Value> all;
  for (const auto& entry : self.dict()->entries) all.push_back(entry.second);
  return runtime.list(std::move(all), SequenceKind::kValues);
}

Value items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("items", arguments, {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->entries) {
    pairs.push_back(runtime.list({key, value}, SequenceKind::kTuple));
  }
  return runtime.list(std::move(pairs), SequenceKind::kItems);
}

constexpr NamedNative kDictMethods[] = {
    {"get", get}, {"keys", keys}, {"values", values}, {"items", items}, {"copy", copy},
};

constexpr std::string_view kListMutators[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

bool is_list(const Value& value) {
  return value.sequence() != nullptr && value.sequence()->kind == SequenceKind::kList;
}

}  // namespace

Native find_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) return find_native(kTextMethods, name);
  if (self.dict() != nullptr) return find_native(kDictMethods, name);
  if (is_list(self)) return find_native(kListMethods, name);
  const bool tuple_like = self.sequence() != nullptr && self.sequence()->is_indexable();
  return tuple_like && name != "copy" ? find_native(kListMethods, name) : nullptr;
}

bool is_mutating_method(const Value& self, std::string_view name) {
  const auto is_name = [name](std::string_view mutator) { return mutator == name; };
  if (self.dict() != nullptr)
    return std::any_of(std::begin(kDictMutators), std::end(kDictMutators), is_name);
  return is_list(self) && std::any_of(std::begin(kListMutators), std::end(kListMutators), is_name);
}

}  // namespace phidias::jinja
