// format.format(...).
#include <algorithm>

#include "text/jinja/conversion.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

bool is_float_type(char type) {
  return type != '\0' && std::string_view("eEfFgG%").find(type) != std::string_view::npos;
}
bool is_integer_type(char type) {
  return type != '\0' && std::string_view("bcdoxXn").find(type) != std::string_view::npos;
}

Specification parse_specification(std::string_view text) {
  Specification how;
  size_t at = 0;
  const auto skip = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != any.npos ? text[at++] : '\0';
  };
  const std::string_view first = character_at(text, 0);
  if (first.size() < text.size() &&
      std::string_view("<>=^").find(text[first.size()]) != std::string_view::npos) {
    how.fill = first;
    at = first.size();
  }
  how.align = skip("<>=^");
  if (const char sign = skip("+- ")) how.sign = sign;
  how.alternate = skip("#") != '\0';
  if (skip("0") != '\0' && how.align == '\0') {
    how.fill = "0";
    how.align = '=';
  }
  how.width = read_number(text, at).value_or(0);
  how.grouping = skip(",_");
  if (skip(".") != '\0') {
    how.precision = read_number(text, at);
    if (!how.precision) fail_value("Format specifier missing precision");
    if (*how.precision > kMaxPrecision) fail_value("precision too big");
  }
  if (at < text.size()) how.type = text[at++];
  if (at < text.size()) fail_value("Invalid format specifier");
  return how;
}

std::string format_one(Runtime& runtime, const Value& value, std::string_view specification) {
  if (specification.empty()) return runtime.to_text(value);
  Specification how = parse_specification(specification);
  const auto unknown_code = [&] {
    fail_value(std::string("Unknown format code '") + how.type + "' for object of type '" +
               std::string(value.type_name()) + "'");
  };
  const bool as_text = value.text() != nullptr || !value.number();
  if (as_text) {
    if (value.text() == nullptr) {
      fail_type("unsupported format string passed to " + std::string(value.type_name()) +
                ".__format__");
    }
    if (how.type != '\0' && how.type != 's') unknown_code();
    return pad(runtime, truncate_characters(value.text()->bytes, how.precision), how, '<');
  }
  if (value.integer() && !is_float_type(how.type)) {
    if (how.type != '\0' && !is_integer_type(how.type)) unknown_code();
    if (how.precision) fail_value("Precision not allowed in integer format specifier");
    if (how.type == 'c') {
      std::string out;
      append_character(out,
                       static_cast<char32_t>(std::clamp<Integer>(*value.integer(), 0, 0x110000)));
      return pad(runtime, std::move(out), how, '<');
    }
    return pad(runtime, format_integer(*value.integer(), how), how, '>');
  }
  if (how.type != '\0' && !is_float_type(how.type)) unknown_code();
  return pad(runtime, format_float(*value.number(), how), how, '>');
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  std::string run(std::string_view format, int depth = 0) {
    if (depth > 2) fail_value("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at++];
      if (c != '{' && c != '}') {
        out += c;
      } else if (at < format.size() && format[at] == c) {
        out += c;
        ++at;
      } else if (c == '}') {
        fail_value("Single '}' encountered in format string");
      } else {
        const size_t end = field_end(format, at);
        out += field(format.substr(at, end - at), depth);
        at = end + 1;
      }
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view format, size_t at) {
    for (int open = 1; at < format.size(); ++at) {
      if (format[at] == '{') ++open;
      if (format[at] == '}' && --open == 0) return at;
    }
    fail_value("Single '{' encountered in format string");
  }

  std::string field(std::string_view text, int depth) {
    const size_t name_end = std::min(text.find_first_of("!:"), text.size());
    Value value = lookup(text.substr(0, name_end));
    text.remove_prefix(name_end);
    if (!text.empty() && text[0] == '!') {
      if (text.size() < 2) fail_value("end of string while looking for conversion specifier");
      if (text[1] == 'r' || text[1] == 'a') {
        value = runtime_.text(to_repr(runtime_.budget(), value));
      } else if (text[1] == 's') {
        value = runtime_.text(runtime_.to_text(value));
      } else {
        fail_value(std::string("Unknown conversion specifier '") + text[1] + "'");
      }
      text.remove_prefix(2);
    }
    if (!text.empty()) text.remove_prefix(1);
    std::string out = format_one(runtime_, value, run(text, depth + 1));
    runtime_.budget().charge(out.size() + Budget::kStep);
    return out;
  }

  Value lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first_value(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      const bool in_brackets = name[0] == '[';
      const size_t stop =
          std::min(in_brackets ? name.find(']') : name.find_first_of(".[", 1), name.size());
      const std::string part(name.substr(1, stop - 1));
      if (!in_brackets) {
        value = attribute(runtime_, value, part);
      } else {
        value = nested_attribute(runtime_, value, runtime_.text(part));
      }
      name.remove_prefix(std::min(stop + (in_brackets ? 1 : 0), name.size()));
    }
    return value;
  }

  Value first_value(std::string_view name) {
    size_t at = 0;
    std::optional<size_t> index = name.empty() ? next_++ : read_number(name, at);
    if (index) {
      if (*index >= arguments_.positional.size()) {
        fail("IndexError", "Replacement index " + std::to_string(*index) +
                               " out of range for positional args tuple");
      }
      return arguments_.positional[*index];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    std::string quoted;
    append_quoted(name, quoted);
    fail("KeyError", quoted);
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

Value brace_format(Runtime& runtime, std::string_view format, const Arguments& arguments) {
  runtime.budget().charge(format.size());
  return runtime.text(BraceFormatter(runtime, arguments).run(format));
}

}  // namespace phidias::jinja
