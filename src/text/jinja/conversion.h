// One value as text by a specification, which both of Python's ways of formatting write.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace phidias::jinja {

inline constexpr size_t kMaxPrecision = 1000;

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

// Digits at `at`, which moves past them.
std::optional<size_t> read_number(std::string_view text, size_t& at);

// The sign, the prefix and the digits; without the filling.
std::string format_integer(Integer value, const Specification& how);
std::string format_float(double value, const Specification& how);

// The first so many characters.
std::string truncate_characters(std::string text, const std::optional<size_t>& most);

// Filled to the width.
std::string pad(Runtime& runtime, std::string text, const Specification& how, char default_align);

}  // namespace phidias::jinja
