// Ctrl-C.
#pragma once

namespace phidias::cli {

// Ctrl-C: set by the handler, cleared by whoever acts on it. install() is called once, by commands
// that can stop half way.
void install_interrupt_handler();
bool interrupted();
void clear_interrupt();

}  // namespace phidias::cli
