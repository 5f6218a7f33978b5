// Self-contained pages: no script from elsewhere, no picture file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "phidias/status.h"

namespace phidias::cli {

std::string html_escaped(std::string_view text);
// White spaces and line ends as signs that can be seen.
std::string visible_token(std::string_view text);
// A background between red (-1), white (0) and blue (1), with a colour of text that can be read on
// it.
std::string heat_style(double share);
// A square matrix [size, size] as a picture: rows downwards, darker is more. Entries are 0 to 1.
//   tip(row, column)   of each visible entry, is the caller's: row and column names
std::string svg_heat(std::span<const float> matrix, size_t size, std::span<const std::string> names,
                     size_t pixels = 240);
// Written to a file, whole or not at all.
Status save_page(const std::string& path, std::string_view title, std::string_view body);

}  // namespace phidias::cli
