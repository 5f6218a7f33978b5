#include "interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace phidias::cli {
namespace {

std::atomic<bool> interrupt_flag{false};

void on_interrupt(int) {
  // A second Ctrl-C before the first was acted on ends the program.
  if (interrupt_flag.exchange(true)) std::_Exit(130);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
}
bool interrupted() { return interrupt_flag.load(); }
void clear_interrupt() { interrupt_flag.store(false); }

}  // namespace phidias::cli
