#include "terminal/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace phidias::cli {
namespace {

// A pseudo-terminal of a given width.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{24, columns, 0, 0};
    ::ioctl(slave_, TIOCSWINSZ, &size);
  }
  ~PseudoTerminal() {
    ::close(slave_);
    ::close(master_);
  }
  int descriptor() const { return slave_; }

 private:
  int master_;
  int slave_ = -1;
};

TEST(Terminal, PipeIsNoTerminalAndGetsNoColours) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Terminal terminal = Terminal::of(ends[1]);
  EXPECT_FALSE(terminal.interactive);
  EXPECT_FALSE(terminal.colours);
  EXPECT_EQ(Style(terminal).bold("x"), "x");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Terminal, ColoursFollowTheEnvironment) {
  const PseudoTerminal pseudo(97);
  if (pseudo.descriptor() < 0) GTEST_SKIP() << "this system gives no pseudo-terminals";
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "xterm", 1);
  const Terminal terminal = Terminal::of(pseudo.descriptor());
  EXPECT_TRUE(terminal.interactive);
  EXPECT_TRUE(terminal.colours);
  EXPECT_EQ(terminal.width, 97U);
  EXPECT_EQ(Style(terminal).colour(Colour::kRed, "x"), "\x1b[31mx\x1b[0m");

  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(Terminal::of(pseudo.descriptor()).colours);
  EXPECT_TRUE(Terminal::of(pseudo.descriptor()).interactive);
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(Terminal::of(pseudo.descriptor()).colours);
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(Terminal::of(pseudo.descriptor()).colours);
}

}  // namespace
}  // namespace phidias::cli
