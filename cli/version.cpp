// phidias version.
#include "phidias/version.h"

#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "phidias/build.h"

namespace phidias::cli {
namespace {

std::string to_text(const BuildInfo& build) {
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
  return text + "\n";
}

std::string to_json(const BuildInfo& build) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::object();
  for (const auto& [name, available] : build.kernels) kernels[name] = available;
  nlohmann::ordered_json types = nlohmann::ordered_json::object();
  for (const auto& [name, description] : build.model_types) types[name] = description;
  const nlohmann::ordered_json json{{"version", PHIDIAS_VERSION},
                                    {"compiler", build.compiler},
                                    {"build_type", build.build_type},
                                    {"cpu", build.cpu},
                                    {"usable_cores", build.usable_cores},
                                    {"kernels", kernels},
                                    {"model_types", types},
                                    {"formats", build.formats}};
  return json.dump(1) + "\n";
}

}  // namespace

std::function<Result<int>()> setup_version(CommandOptions& command) {
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "As one JSON object; kernels: whether this CPU has them");
  return [json]() -> Result<int> {
    const BuildInfo build = build_info();
    print(*json ? to_json(build) : to_text(build));
    return kExitOk;
  };
}

}  // namespace phidias::cli
