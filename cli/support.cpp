// phidias support: which values a model has.
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "phidias/trace.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

struct SupportArguments {
  ModelOption model;
  bool tree = false;
  bool json = false;
};

std::string extents_of(const Support& support) {
  std::string text = "[";
  for (const std::string& extent : support.extents) text += (text == "[" ? "" : ", ") + extent;
  return text + "]";
}

nlohmann::ordered_json to_json(const std::vector<Support>& all) {
  auto list = nlohmann::ordered_json::array();
  for (const Support& support : all) {
    nlohmann::ordered_json axes = nlohmann::ordered_json::array();
    for (const std::string_view axis : axes_of(support.value.layout)) axes.push_back(axis);
    list.push_back({{"name", support.name},
                    {"layout", name_of(support.value.layout)},
                    {"axes", axes},
                    {"extents", support.extents},
                    {"standard", support.value.standard},
                    {"writable", support.value.writable},
                    {"native", support.value.native},
                    {"meaning", support.value.meaning},
                    {"missing", support.missing ? nlohmann::ordered_json(*support.missing)
                                                : nlohmann::ordered_json()}});
  }
  return list;
}

Result<int> run(const SupportArguments& arguments) {
  auto path = arguments.model.find();
  if (!path.ok()) return std::move(path).error();
  if (arguments.tree) {
    const auto tree = describe(*path);
    if (!tree.ok()) return tree.error();
    print(*tree);
    return kExitOk;
  }
  const auto all = support(*path);
  if (!all.ok()) return all.error();
  if (arguments.json) {
    print(to_json(*all).dump(2) + "\n");
    return kExitOk;
  }
  size_t name_width = 0;
  size_t extents_width = 0;
  for (const Support& support : *all) {
    name_width = std::max(name_width, support.name.size());
    extents_width = std::max(extents_width, extents_of(support).size());
  }
  std::string text;
  for (const Support& support : *all) {
    const std::string extents = extents_of(support);
    text += support.name + std::string(name_width - support.name.size() + 2, ' ');
    text += extents + std::string(extents_width - extents.size() + 2, ' ');
    text += support.missing ? "not here: " + *support.missing : std::string(support.value.meaning);
    if (!support.missing && !support.value.writable) text += " (read only)";
    text += "\n";
  }
  print(text);
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_support(CommandOptions& command) {
  auto arguments = std::make_shared<SupportArguments>();
  arguments->model.declare(command);
  command.add_flag("--tree", arguments->tree,
                   "The tree of modules with the values in their places");
  command.add_flag("--json", arguments->json, "Everything as a JSON list");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
