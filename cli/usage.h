// What a command line that is not understood is answered with.
#pragma once

#include <string>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace phidias::cli {

// One line: what is wrong, what to do instead, and where the right arguments stand. `app` is the
// program, not its command.
std::string usage_fault(const CLI::App* app, const CLI::Error& fault);

}  // namespace phidias::cli
