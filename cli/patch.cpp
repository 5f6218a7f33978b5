// phidias patch: which places carry the difference between two texts.
#include "commands.h"
#include "interrupt.h"
#include "layer_table.h"
#include "metric_option.h"
#include "phidias/patching.h"
#include "run_options.h"
#include "sweep_columns.h"
#include "terminal/progress_bar.h"
#include "terminal/terminal.h"
#include "text_pair.h"

namespace phidias::cli {
namespace {

struct PatchArguments {
  RunOptions run;
  TextPairArguments texts;
  std::string value = "layer_output";
  std::string sweep = "layers,positions";
  uint32_t window = 1;
  std::optional<double> noise;
  std::string noise_at = "all";
  uint64_t seed = 0;
  std::string metric;
  std::string html;
};

// "layers,heads": the rows of the table are the layers in any case.
Result<SweepAxis> axis_of(const std::string& sweep) {
  constexpr std::string_view kRows = "layers,";
  return sweep_axis_from_name(sweep.starts_with(kRows) ? sweep.substr(kRows.size()) : sweep);
}

Result<SweepOptions> options_of(const PatchArguments& arguments) {
  SweepOptions options;
  auto axis = axis_of(arguments.sweep);
  if (!axis.ok()) return std::move(axis).error();
  options.axis = *axis;
  options.window = arguments.window;
  if (arguments.noise.has_value() == arguments.texts.has_corrupt()) {
    return Error{Code::kInvalidArgument,
                 "the text that is patched is --corrupt, or with --noise the clean one with noise "
                 "on its embeddings; give one of them",
                 {}};
  }
  if (arguments.noise) {
    auto at = Positions::parse(arguments.noise_at);
    if (!at.ok()) return std::move(at).error();
    options.edits += noise(kValues.token_embeddings.at(*at), *arguments.noise, arguments.seed);
  }
  return options;
}

Result<int> run(const PatchArguments& arguments) {
  auto options = options_of(arguments);
  if (!options.ok()) return std::move(options).error();
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const auto tokenizer = (*engine)->model().tokenizer();
  auto texts = arguments.texts.read(tokenizer.get());
  if (!texts.ok()) return std::move(texts).error();
  auto value = parse_value("layers[0]." + arguments.value);
  if (!value.ok()) return std::move(value).error();
  auto metric = read_metric(arguments.metric, (*engine)->model());
  if (!metric.ok()) return std::move(metric).error();
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  options->progress = [&](size_t done, size_t all) {
    bar.update("patched runs", done, all);
    return !interrupted();
  };
  const auto sweep =
      patch_sweep(**engine, texts->clean, texts->corrupt, value->id, *metric, *options);
  bar.finish();
  if (!sweep.ok()) return interrupted() ? Result<int>(kExitInterrupted) : sweep.error();

  char note[160];
  std::snprintf(note, sizeof note,
                "metric: clean %.4f, %s %.4f; share of the difference that comes back",
                sweep->clean, arguments.noise ? "with noise" : "corrupt", sweep->base);
  LayerTable table;
  table.title = "Activation patching of " + std::string(info_of(value->id).name);
  table.note = note;
  table.layers = sweep->layers;
  table.full = 1;
  table.columns = sweep_columns(options->axis, sweep->columns,
                                token_labels(tokenizer.get(), texts->clean, texts->corrupt));
  for (size_t layer = 0; layer < sweep->layers; ++layer) {
    for (size_t c = 0; c < sweep->columns; ++c) table.values.push_back(sweep->recovered(layer, c));
  }
  const Status shown = show(table, arguments.html);
  if (!shown.ok()) return shown.error();
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_patch(CommandOptions& command) {
  auto arguments = std::make_shared<PatchArguments>();
  arguments->run.declare(command);
  arguments->texts.declare(command);
  command
      .add_option("--value", arguments->value,
                  "What is put in: layer_output, attention_output, attention_head_outputs, ...")
      .show_default();
  command
      .add_option("--sweep", arguments->sweep,
                  "What each cell of the table is: layers,positions; layers,heads; or layers")
      .show_default();
  command.add_option("--window", arguments->window, "Layers that are patched together")
      .show_default();
  command.add_option(
      "--noise", arguments->noise,
      "Causal tracing: in place of another text, noise of this deviation on the clean "
      "text's embeddings");
  command.add_option("--noise-at", arguments->noise_at, "The positions of the subject, such as 0:4")
      .show_default();
  command.add_option("--seed", arguments->seed, "Of the noise").show_default();
  declare_metric(command, arguments->metric).required();
  command.add_option("--html", arguments->html, "Write one self-contained page in place of text");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
