#include "text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

constexpr size_t kMaxPrecision = 1000;

// One conversion, in either way of writing it.
struct Specification {
  std::string fill = " ";
  char align = '\0';  // < > ^ = or none
  char sign = '-';    // + - or space
  bool alternate = false;
  size_t width = 0;
  std::optional<size_t> precision;
  char grouping = '\0';  // , or _ between groups of three digits
  char type = '\0';
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Digits at `at`, which moves past them.
std::optional<size_t> read_number(std::string_view text, size_t& at) {
  if (at >= text.size() || !is_digit(text[at])) return std::nullopt;
  size_t number = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    number = number * 10 + static_cast<size_t>(text[at] - '0');
    if (number > kMaxOutputBytes) fail_value("Too many decimal digits in format string");
  }
  return number;
}

std::string pad(Runtime& runtime, std::string text, const Specification& how, char default_align) {
  const size_t length = count_characters(text);
  if (length >= how.width) return text;
  const size_t missing = how.width - length;
  runtime.budget().charge(missing, how.fill.size());
  const char align = how.align != '\0' ? how.align : default_align;
  size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string filling;
  for (size_t i = 0; i < before; ++i) filling += how.fill;
  if (align == '=') {  // between the sign and the digits
    const size_t sign =
        !text.empty() && std::string_view("+- ").find(text[0]) != std::string_view::npos;
    return text.insert(sign, filling);
  }
  text.insert(0, filling);
  for (; before < missing; ++before) text += how.fill;
  return text;
}

std::string signed_text(bool negative, const Specification& how, const std::string& magnitude) {
  if (negative) return "-" + magnitude;
  return how.sign == '-' ? magnitude : how.sign + magnitude;
}

std::string group_digits(std::string number, char separator) {
  if (separator == '\0') return number;
  const size_t whole = std::min(number.find_first_not_of("0123456789"), number.size());
  for (size_t at = whole; at > 3; at -= 3) number.insert(at - 3, 1, separator);
  return number;
}

std::string format_integer(Integer value, const Specification& how) {
  unsigned base = 10;
  std::string prefix;
  if (how.type == 'x' || how.type == 'X') base = 16, prefix = "0x";
  if (how.type == 'o') base = 8, prefix = "0o";
  if (how.type == 'b') base = 2, prefix = "0b";
  std::string digits = integer_text(value, base);
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (how.precision && digits.size() < *how.precision)
    digits.insert(0, *how.precision - digits.size(), '0');
  digits = group_digits(std::move(digits), how.grouping);
  if (how.alternate) digits = prefix + digits;
  if (how.type == 'X') {
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c); });
  }
  return signed_text(negative, how, digits);
}

std::string format_float(double value, const Specification& how) {
  const char type = static_cast<char>(how.type | 0x20);
  std::string text;
  if (how.type == '\0' && !how.precision) {
    text = float_repr(std::abs(value));
  } else {
    const bool percent = how.type == '%';
    const auto form = type == 'e'              ? std::chars_format::scientific
                      : type == 'f' || percent ? std::chars_format::fixed
                                               : std::chars_format::general;
    const size_t precision = std::min(how.precision.value_or(6), kMaxPrecision);
    std::string buffer(precision + 400, '\0');
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                      std::abs(value) * (percent ? 100 : 1), form, static_cast<int>(precision));
    text.assign(buffer.data(), end.ptr);
    if (percent) text += '%';
  }
  if (how.type == 'E' || how.type == 'G') {
    std::replace(text.begin(), text.end(), 'e', 'E');
  }
  const bool negative = std::signbit(value) && !std::isnan(value);
  return signed_text(negative, how, group_digits(std::move(text), how.grouping));
}

bool is_float_type(char type) {
  return type != '\0' && std::string_view("eEfFgG%").find(type) != std::string_view::npos;
}
bool is_integer_type(char type) {
  return type != '\0' && std::string_view("bcdoxXn").find(type) != std::string_view::npos;
}

std::string truncate_characters(std::string text, const std::optional<size_t>& most) {
  if (!most) return text;
  size_t at = 0;
  for (size_t i = 0; i < *most && at < text.size(); ++i) at += character_at(text, at).size();
  text.resize(at);
  return text;
}

// ------------------------------------------------------------------------------------------------
// percent

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, std::string_view format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {
    const Sequence* list = values.sequence();
    is_tuple_ = list != nullptr && list->is_tuple();
  }

  Value run() {
    std::string out;
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      if (c != '%') {
        out += c;
      } else if (at_ < format_.size() && format_[at_] == '%') {
        out += format_[at_++];
      } else {
        out += convert();
      }
    }
    // What can be subscripted may go unused in Python, unless it is a tuple or a string.
    const bool may_go_unused = values_.dict() != nullptr || values_.undefined() != nullptr ||
                               (values_.sequence() != nullptr && !is_tuple_);
    if (next_ < available() && !may_go_unused) {
      fail_type("not all arguments converted during string formatting");
    }
    return runtime_.text(std::move(out));
  }

 private:
  size_t available() const { return is_tuple_ ? values_.sequence()->items.size() : 1; }

  Value next_value() {
    if (named_) return *named_;
    if (next_ >= available()) fail_type("not enough arguments for format string");
    ++next_;
    return is_tuple_ ? values_.sequence()->items[next_ - 1] : values_;
  }

  size_t next_size() {
    const auto whole = next_value().integer();
    if (!whole) fail_type("* wants int");
    if (*whole > Integer{kMaxOutputBytes}) fail_value("Too many decimal digits in format string");
    return static_cast<size_t>(std::max<Integer>(*whole, 0));
  }

  void read_name() {
    named_.reset();
    if (at_ >= format_.size() || format_[at_] != '(') return;
    const size_t end = format_.find(')', at_);
    if (end == format_.npos) fail_value("incomplete format key");
    if (values_.dict() == nullptr) fail_type("format requires a mapping");
    const std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
    const Value* found = find(runtime_.budget(), *values_.dict(), name);
    if (found == nullptr) {
      std::string quoted;
      append_quoted(name, quoted);
      fail("KeyError", quoted);
    }
    named_ = *found;
    at_ = end + 1;
  }

  Specification read_specification() {
    Specification how;
    how.align = '>';
    for (; at_ < format_.size(); ++at_) {
      const char c = format_[at_];
      if (c == '-') {
        how.align = '<';
        how.fill = " ";
      } else if (c == '+' || (c == ' ' && how.sign == '-')) {
        how.sign = c;
      } else if (c == '0' && how.align != '<') {
        how.align = '=';
        how.fill = "0";
      } else if (c == '#') {
        how.alternate = true;
      } else if (c != ' ' && c != '0') {
        break;
      }
    }
    const auto size = [this]() -> std::optional<size_t> {
      if (at_ >= format_.size() || format_[at_] != '*') return read_number(format_, at_);
      ++at_;
      return next_size();
    };
    how.width = size().value_or(0);
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      how.precision = std::min(size().value_or(0), kMaxPrecision);
    }
    while (at_ < format_.size() &&
           std::string_view("hlL").find(format_[at_]) != std::string_view::npos)
      ++at_;
    if (at_ >= format_.size()) fail_value("incomplete format");
    how.type = format_[at_++];
    return how;
  }

  std::string convert() {
    read_name();
    Specification how = read_specification();
    const Value value = next_value();
    switch (how.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text =
            how.type == 's' ? runtime_.to_text(value) : to_repr(runtime_.budget(), value);
        if (how.align == '=') how.align = '>', how.fill = " ";
        return pad(runtime_, truncate_characters(std::move(text), how.precision), how, '>');
      }
      case 'c':
        return pad(runtime_, character(value), how, '>');
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return pad(runtime_, format_integer(integer(value, how.type), how), how, '>');
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.number())
          fail_type("must be real number, not " + std::string(value.type_name()));
        return pad(runtime_, format_float(*value.number(), how), how, '>');
      default:
        break;
    }
    fail_value(std::string("unsupported format character '") + how.type + "' at index " +
               std::to_string(at_ - 1));
  }

  static Integer integer(const Value& value, char type) {
    if (const auto whole = value.integer()) return *whole;
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (decimal && value.number() && std::abs(*value.number()) < 1e38) {
      return static_cast<Integer>(*value.number());
    }
    fail_type(std::string("%") + type + " format: " + (decimal ? "a real number" : "an integer") +
              " is required, not " + std::string(value.type_name()));
  }

  static std::string character(const Value& value) {
    std::string out;
    if (const auto code = value.integer(); code && *code >= 0 && *code <= 0x10FFFF) {
      append_character(out, static_cast<char32_t>(*code));
    } else if (value.text() != nullptr && count_characters(value.text()->bytes) == 1) {
      out = value.text()->bytes;
    } else {
      fail_type("%c requires int or char");
    }
    return out;
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& values_;
  bool is_tuple_ = false;
  size_t at_ = 0;
  size_t next_ = 0;
  std::optional<Value> named_;
};

// -------------------------------------------------------------------------------------------------
// braces

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

Value percent_format(Runtime& runtime, std::string_view format, const Value& values) {
  runtime.budget().charge(format.size());
  return PercentFormatter(runtime, format, values).run();
}

Value brace_format(Runtime& runtime, std::string_view format, const Arguments& arguments) {
  runtime.budget().charge(format.size());
  return runtime.text(BraceFormatter(runtime, arguments).run(format));
}

}  // namespace phidias::jinja
