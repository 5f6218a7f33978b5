#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/letter_case.h"
#include "text/jinja/native_table.h"
#include "text/jinja/operators.h"

namespace phidias::jinja {
namespace {

constexpr double kIntegerBound = 1.7e38;  // floats below this are Integers

// Without the single _ that may stand between digits; nothing where one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i - 1] == '+' ||
               text[i - 1] == '-') {
      return std::nullopt;
    }
  }
  return digits;
}

// int(text, base).
std::optional<Integer> parse_integer(std::string_view text, unsigned base) {
  const auto stripped = without_underscores(strip_left(strip_right(text)));
  if (!stripped) return std::nullopt;
  std::string_view digits = *stripped;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const unsigned written = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (written != 0 && (base == written || base == 0)) {
      base = written;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  if (digits.empty()) return std::nullopt;
  Integer value = 0;
  for (const char c : digits) {
    const bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    const int digit = c >= '0' && c <= '9' ? c - '0' : is_letter ? (c | 0x20) - 'a' + 10 : 99;
    if (digit >= static_cast<int>(base)) return std::nullopt;
    if (__builtin_mul_overflow(value, Integer{base}, &value) ||
        __builtin_add_overflow(value, Integer{digit}, &value)) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

// float(text).
std::optional<double> parse_float(std::string_view text) {
  const auto stripped = without_underscores(strip_left(strip_right(text)));
  if (!stripped) return std::nullopt;
  std::string_view digits = *stripped;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  double value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (fault == std::errc::result_out_of_range) {
    value = std::strtod(std::string(digits).c_str(), nullptr);
  } else if (fault != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<Integer> truncated(double value) {
  if (!(std::abs(value) < kIntegerBound)) return std::nullopt;
  return static_cast<Integer>(value);
}

Value to_int(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  if (self.undefined() != nullptr) fail_undefined(*self.undefined());
  Value fallback = bound.get(0) != nullptr ? bound.value(0) : Value(Integer{0});
  if (const Text* text = self.text()) {
    const Integer base = bound.integer(1, 10);
    if (base == 0 || (base >= 2 && base <= 36)) {
      if (const auto whole = parse_integer(text->bytes, static_cast<unsigned>(base)))
        return Value(*whole);
    }
    const auto number = parse_float(text->bytes);
    const auto whole = number ? truncated(*number) : std::nullopt;
    return whole ? Value(*whole) : fallback;
  }
  if (const auto whole = self.integer()) return Value(*whole);
  if (const auto number = self.number()) {
    if (std::isinf(*number)) fail("OverflowError", "cannot convert float infinity to integer");
    if (const auto whole = truncated(*number)) return Value(*whole);
  }
  return fallback;
}

Value to_float(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (self.undefined() != nullptr) fail_undefined(*self.undefined());
  if (const auto number = self.number()) return Value(*number);
  if (const Text* text = self.text()) {
    if (const auto number = parse_float(text->bytes)) return Value(*number);
  }
  return bound.get(0) != nullptr ? bound.value(0) : Value(0.0);
}

Value absolute(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("abs", arguments, {});
  if (!self.number())
    fail_type("bad operand type for abs(): '" + std::string(self.type_name()) + "'");
  if (const auto whole = self.integer()) {
    return *whole < 0 ? unary(runtime, UnaryOperator::kMinus, self) : Value(*whole);
  }
  return Value(std::abs(*self.number()));
}

// Python's round(value, digits): the nearest decimal of the exact value, ties to even.
double round_decimal(double value, Integer digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < 0) {
    if (digits < -308) return std::copysign(0.0, value);
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[700];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed,
                                 static_cast<int>(digits));
  double rounded = value;
  std::from_chars(buffer, end.ptr, rounded);
  return rounded;
}

Value round(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::string method = bound.text(1).value_or("common");
  const Integer digits = std::clamp<Integer>(bound.integer(0, 0), -1000, 1000);
  if (method != "common" && method != "ceil" && method != "floor") {
    fail("FilterArgumentError", "method must be common, ceil or floor");
  }
  if (!self.number()) {
    fail_type("type " + std::string(self.type_name()) + " doesn't define __round__ method");
  }
  const double value = *self.number();
  if (method == "common") {
    if (!self.integer()) return Value(round_decimal(value, digits));
    if (digits >= 0) return Value(*self.integer());
    return Value(truncated(round_decimal(value, digits)).value_or(0));
  }
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr NamedNative kFilters[] = {
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round},
};

}  // namespace

Native find_number_filter(std::string_view name) { return find_native(kFilters, name); }

}  // namespace phidias::jinja
