#include "text/jinja/conversion.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

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

}  // namespace

std::optional<size_t> read_number(std::string_view text, size_t& at) {
  if (at >= text.size() || !is_digit(text[at])) return std::nullopt;
  size_t number = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    number = number * 10 + static_cast<size_t>(text[at] - '0');
    if (number > kMaxOutputBytes) fail_value("Too many decimal digits in format string");
  }
  return number;
}

std::string format_integer(Integer value, const Specification& how) {
  unsigned base = 10;
  std::string_view prefix;
  if (how.type == 'x' || how.type == 'X') base = 16, prefix = "0x";
  if (how.type == 'o') base = 8, prefix = "0o";
  if (how.type == 'b') base = 2, prefix = "0b";
  std::string digits = integer_text(value, base);
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (how.precision && digits.size() < *how.precision)
    digits.insert(0, *how.precision - digits.size(), '0');
  digits = group_digits(std::move(digits), how.grouping);
  if (how.alternate) digits.insert(0, prefix);
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

std::string truncate_characters(std::string text, const std::optional<size_t>& most) {
  if (!most) return text;
  size_t at = 0;
  for (size_t i = 0; i < *most && at < text.size(); ++i) at += character_at(text, at).size();
  text.resize(at);
  return text;
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

}  // namespace phidias::jinja
