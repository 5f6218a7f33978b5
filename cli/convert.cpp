// phidias convert, quantize and imatrix: checkpoints to GGUF, and what quantization should know.
#include "phidias/convert.h"
#include <algorithm>
#include "phidias/importance.h"

#include "commands.h"
#include "conversion.h"
#include "input_options.h"
#include "interrupt.h"
#include "output.h"
#include "run_options.h"
#include "terminal/progress_bar.h"
#include "terminal/table.h"

namespace phidias::cli {
namespace {

struct ConvertArguments {
  ModelOption model;
  std::string output;
  ConvertOptions options;
  std::string importance;
  std::string calibration;
  uint32_t window = 512;
  size_t windows = 64;
  bool list = false;
  bool json = false;
};

struct TextForModel {
  std::shared_ptr<const Model> model;
  std::vector<TokenId> ids;
};

// The model as it is, and the text by its tokenizer.
Result<TextForModel> read_text(const std::filesystem::path& path,
                               const ConvertArguments& arguments) {
  auto model = Model::load(path, {.weights = "file", .threads = arguments.options.threads});
  if (!model.ok()) return std::move(model).error();
  InputOptions input;
  input.file = arguments.calibration;
  auto ids = input.read_ids((*model)->tokenizer().get());
  if (!ids.ok()) return std::move(ids).error();
  ids->resize(std::min(ids->size(), arguments.window * arguments.windows));
  return TextForModel{std::move(*model), std::move(*ids)};
}

// Runs the text through the model.
Result<Importance> find_importance(const std::filesystem::path& path,
                                   const ConvertArguments& arguments) {
  auto text = read_text(path, arguments);
  if (!text.ok()) return std::move(text).error();
  const uint32_t window = std::min(arguments.window, text->model->info().max_context);
  auto engine = Engine::create(
      text->model, {.threads = arguments.options.threads, .kv = {}, .context = window, .isa = {}});
  if (!engine.ok()) return std::move(engine).error();
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  return collect_importance(**engine, text->ids,
                            {.window = window, .progress = [&](size_t done, size_t total) {
                               bar.update("calibration", done, total);
                               return !interrupted();
                             }});
}

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
  if (!arguments.importance.empty()) {
    auto importance = load_importance(arguments.importance);
    if (!importance.ok()) return std::move(importance).error();
    arguments.options.importance = std::make_shared<const Importance>(std::move(*importance));
  }
  if (!arguments.calibration.empty()) {
    auto text = read_text(*path, arguments);
    if (!text.ok()) return std::move(text).error();
    arguments.options.calibration = {std::move(text->ids), arguments.window};
  }
  return run_conversion(arguments.output, arguments.json, [&](auto progress) {
    arguments.options.progress = std::move(progress);
    return write_gguf(*path, arguments.output, arguments.options);
  });
}

std::shared_ptr<ConvertArguments> declare(CommandOptions& command) {
  auto arguments = std::make_shared<ConvertArguments>();
  arguments->model.declare(command, false);
  command.add_option("-o,--output", arguments->output, "The GGUF file to write");
  declare_threads(command, arguments->options.threads);
  command.add_option("--name", arguments->options.model_name,
                     "The model's name in the file; default: the folder's, or the file's own");
  command.add_flag("--list", arguments->list, "Show the recipes and stop");
  command.add_flag("--json", arguments->json, "What it cost as a JSON object");
  return arguments;
}

}  // namespace

std::function<Result<int>()> setup_convert(CommandOptions& command) {
  auto arguments = declare(command);
  command
      .add_option("--type", arguments->options.recipe,
                  "file: every tensor as it is; or a recipe (see --list)")
      .show_default();
  return [arguments] { return run(*arguments); };
}

std::function<Result<int>()> setup_quantize(CommandOptions& command) {
  auto arguments = declare(command);
  arguments->options.recipe = "q4";
  command.add_option("--type", arguments->options.recipe, "A recipe (see --list)").show_default();
  const Option importance =
      command.add_option("--imatrix", arguments->importance,
                         "An importance matrix (a GGUF file of `phidias imatrix` or llama.cpp)");
  command
      .add_option(
          "--calibration", arguments->calibration,
          "A text that the model runs first, so that errors are kept from where they matter "
          "and made up for where they can be; - for standard input")
      .excludes(importance);
  command.add_option("--window", arguments->window, "Tokens of a window of that text")
      .in_range(2U, 1U << 20)
      .show_default();
  command.add_option("--windows", arguments->windows, "At most so many windows of it")
      .positive()
      .show_default();
  return [arguments] { return run(*arguments); };
}

std::function<Result<int>()> setup_imatrix(CommandOptions& command) {
  auto arguments = std::make_shared<ConvertArguments>();
  arguments->model.declare(command);
  command.add_option("--file", arguments->calibration, "The text to run; - for standard input")
      .required();
  command
      .add_option("-o,--output", arguments->output, "The importance matrix to write, a GGUF file")
      .required();
  command.add_option("--window", arguments->window, "Tokens of a window")
      .in_range(2U, 1U << 20)
      .show_default();
  command.add_option("--windows", arguments->windows, "At most so many windows")
      .positive()
      .show_default();
  declare_threads(command, arguments->options.threads);
  return [arguments]() -> Result<int> {
    auto path = arguments->model.find();
    if (!path.ok()) return std::move(path).error();
    auto importance = find_importance(*path, *arguments);
    if (!importance.ok()) {
      if (importance.error().code == Code::kCancelled) return kExitInterrupted;
      return std::move(importance).error();
    }
    const Status saved = save_importance(*importance, arguments->output);
    if (!saved.ok()) return saved.error();
    return kExitOk;
  };
}

}  // namespace phidias::cli
