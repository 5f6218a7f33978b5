// phidias version.
#include "phidias/version.h"
#include "commands.h"
#include "common.h"
#include "phidias/build.h"

namespace phidias::cli {

std::function<Result<int>()> setup_version(CLI::App&) {
  return []() -> Result<int> {
    const BuildInfo build = build_info();
    std::string text = std::string("phidias ") + PHIDIAS_VERSION + " (" + build.compiler + ", " +
                       build.build_type + ")\n";
    text +=
        "cpu: " + build.cpu + ", " + std::to_string(build.usable_cores) + " usable cores\nkernels:";
    for (const auto& [name, available] : build.kernels)
      text += " " + name + (available ? "" : " (not on this CPU)");
    text += "\nmodel types:";
    for (const auto& [name, description] : build.model_types) text += " " + name;
    text += "\nnumber formats:";
    for (const std::string& format : build.formats) text += " " + format;
    print(text + "\n");
    return kExitOk;
  };
}

}  // namespace phidias::cli
