#include "terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace phidias::cli {

Terminal Terminal::of(int descriptor) {
  Terminal terminal;
  terminal.interactive = ::isatty(descriptor) == 1;
  if (!terminal.interactive) return terminal;
  // https://no-color.org: present and not empty.
  const char* no_color = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  terminal.colours = !dumb && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.width = size.ws_col;
  return terminal;
}

std::string Style::wrapped(std::string_view code, std::string_view text) const {
  if (!on_) return std::string(text);
  std::string out = "\x1b[";
  out.append(code).append("m").append(text).append("\x1b[0m");
  return out;
}

std::string Style::bold(std::string_view text) const { return wrapped("1", text); }

std::string Style::dim(std::string_view text) const { return wrapped("2", text); }

std::string Style::colour(Colour colour, std::string_view text) const {
  switch (colour) {
    case Colour::kRed:
      return wrapped("31", text);
    case Colour::kGreen:
      return wrapped("32", text);
    case Colour::kYellow:
      return wrapped("33", text);
    case Colour::kBlue:
      return wrapped("34", text);
    case Colour::kMagenta:
      return wrapped("35", text);
    case Colour::kCyan:
      return wrapped("36", text);
  }
  return std::string(text);
}

}  // namespace phidias::cli
