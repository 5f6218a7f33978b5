#include "terminal/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <array>
#include <cmath>
#include <utility>

namespace phidias::cli {
namespace {

// The first character of `text`: its bytes and columns. Bytes that are not UTF-8 count as one
// column each, which is what terminals show for them.
std::pair<size_t, size_t> first_character(std::string_view text) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (bytes <= 0) return {1, 1};
  const int columns = utf8proc_charwidth(code);
  return {static_cast<size_t>(bytes), columns > 0 ? static_cast<size_t>(columns) : 0};
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(uint64_t count) {
  constexpr std::array kUnits{"k", "M", "B", "T", "P", "E"};
  if (count < 1000) return fmt::format("{}", count);
  double value = static_cast<double>(count) / 1000;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  if (seconds > 1e15) return "?";
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const auto [bytes, width] = first_character(text);
    columns += width;
    text.remove_prefix(bytes);
  }
  return columns;
}

std::string fit_width(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  size_t kept = 0;
  size_t used = 0;
  while (true) {
    const auto [bytes, width] = first_character(text.substr(kept));
    if (used + width > columns - 1) break;
    kept += bytes;
    used += width;
  }
  return std::string(text.substr(0, kept)) + "…";
}

std::string pad_width(std::string_view text, size_t columns, Align align) {
  const size_t width = display_width(text);
  const std::string fill(columns > width ? columns - width : 0, ' ');
  return align == Align::kLeft ? std::string(text) + fill : fill + std::string(text);
}

}  // namespace phidias::cli
