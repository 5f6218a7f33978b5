// phidias convert and phidias quantize: checkpoints to GGUF.
#include "phidias/convert.h"
#include "commands.h"
#include "common.h"
#include "conversion.h"
#include "terminal/table.h"

namespace phidias::cli {
namespace {

struct ConvertArguments {
  ModelOption model;
  std::string output;
  ConvertOptions options;
  bool list = false;
  bool json = false;
};

Result<int> run(ConvertArguments arguments) {
  if (arguments.list) {
    Table table({{"recipe"}, {"what it keeps"}});
    for (const WeightRecipe& recipe : weight_recipes())
      table.add({std::string(recipe.name), std::string(recipe.summary)});
    print(table.to_string(Style(Terminal::of(1))));
    return kExitOk;
  }
  if (arguments.model.name.empty() || arguments.output.empty()) {
    return Error{Code::kInvalidArgument,
                 "needs a model (-m) and a file to write (-o); --list shows the recipes",
                 {}};
  }
  auto path = arguments.model.find();
  if (!path.ok()) return std::move(path).error();
  return run_conversion(arguments.output, arguments.json, [&](auto progress) {
    arguments.options.progress = std::move(progress);
    return write_gguf(*path, arguments.output, arguments.options);
  });
}

std::shared_ptr<ConvertArguments> declare(CLI::App& app) {
  auto arguments = std::make_shared<ConvertArguments>();
  arguments->model.declare(app, false);
  app.add_option("-o,--output", arguments->output, "The GGUF file to write");
  app.add_option("-t,--threads", arguments->options.threads,
                 "Threads; default: the physical cores that this process may use")
      ->check(CLI::Range(1, 1024));
  app.add_option("--name", arguments->options.model_name,
                 "The model's name in the file; default: the folder's, or the file's own");
  app.add_flag("--list", arguments->list, "Show the recipes and stop");
  app.add_flag("--json", arguments->json, "What it cost as a JSON object");
  return arguments;
}

}  // namespace

std::function<Result<int>()> setup_convert(CLI::App& app) {
  auto arguments = declare(app);
  app.add_option("--type", arguments->options.recipe,
                 "file: every tensor as it is; or a recipe (see --list)")
      ->capture_default_str();
  return [arguments] { return run(*arguments); };
}

std::function<Result<int>()> setup_quantize(CLI::App& app) {
  auto arguments = declare(app);
  arguments->options.recipe = "q4_k_m";
  app.add_option("--type", arguments->options.recipe, "A recipe (see --list)")
      ->capture_default_str();
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
