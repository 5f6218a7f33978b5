// What an output stream is: a terminal or not, how wide, and whether colours are wanted. Asked
// once, passed as a value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace phidias::cli {

struct Terminal {
  bool interactive = false;  // someone watches: progress bars and line editing make sense
  bool colours = false;      // interactive, and neither NO_COLOR nor TERM=dumb says otherwise
  size_t width = 80;         // columns

  //   descriptor  1 for standard output, 2 for standard error
  static Terminal of(int descriptor);
};

enum class Colour { kRed, kGreen, kYellow, kBlue, kMagenta, kCyan };

// Text with colours where the terminal wants them; the text itself where not.
class Style {
 public:
  explicit Style(const Terminal& terminal) : on_(terminal.colours) {}

  std::string bold(std::string_view text) const;
  std::string dim(std::string_view text) const;
  std::string colour(Colour colour, std::string_view text) const;

 private:
  std::string wrapped(std::string_view code, std::string_view text) const;

  bool on_;
};

}  // namespace phidias::cli
