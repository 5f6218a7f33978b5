// Numbers and text as people read them: sizes, durations, columns of a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phidias::cli {

// "0 B", "1023 B", "1.5 KiB", "93.8 MiB": powers of 1024, three digits at most before the point.
std::string format_bytes(uint64_t bytes);
// "1.2 M", "3.82 B": powers of 1000, for parameters and tokens; below 1000 the number itself.
std::string format_count(uint64_t count);
// "0.0 s", "59.9 s", "4 min 05 s", "3 h 07 min". Negative and not finite: "?".
std::string format_duration(double seconds);

// Columns that UTF-8 text takes on a terminal: wide characters two, combining and control
// characters none.
size_t display_width(std::string_view text);
// The longest beginning of whole characters that fits; with an ellipsis where something was cut
// off.
std::string fit_width(std::string_view text, size_t columns);
// Text filled with spaces to `columns`, on its right side or its left.
enum class Align { kLeft, kRight };
std::string pad_width(std::string_view text, size_t columns, Align align = Align::kLeft);

}  // namespace phidias::cli
