// phidias ablate: what a text loses without a place of the network.
#include "commands.h"
#include "input_options.h"
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

struct AblateArguments {
  RunOptions run;
  InputOptions input;
  std::string value = "attention_head_outputs";
  std::string sweep = "heads";
  std::string how = "zero";
  std::string metric;
  std::string html;
};

Result<int> run(const AblateArguments& arguments) {
  SweepOptions options;
  auto axis = sweep_axis_from_name(arguments.sweep);
  if (!axis.ok()) return std::move(axis).error();
  options.axis = *axis;
  auto how = ablation_from_name(arguments.how);
  if (!how.ok()) return std::move(how).error();
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const auto tokenizer = (*engine)->model().tokenizer();
  auto ids = arguments.input.read_ids(tokenizer.get());
  if (!ids.ok()) return std::move(ids).error();
  auto value = parse_value("layers[0]." + arguments.value);
  if (!value.ok()) return std::move(value).error();
  auto metric = read_metric(arguments.metric, (*engine)->model());
  if (!metric.ok()) return std::move(metric).error();
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  options.progress = [&](size_t done, size_t all) {
    bar.update("ablated runs", done, all);
    return !interrupted();
  };
  const auto sweep = ablation_sweep(**engine, *ids, value->id, *how, *metric, options);
  bar.finish();
  if (!sweep.ok()) return interrupted() ? Result<int>(kExitInterrupted) : sweep.error();

  char note[120];
  std::snprintf(note, sizeof note, "metric: %.4f; what it changes by without each place",
                sweep->base);
  LayerTable table;
  table.title = "Ablation of " + std::string(info_of(value->id).name);
  table.note = note;
  table.layers = sweep->layers;
  table.columns =
      sweep_columns(options.axis, sweep->columns, token_labels(tokenizer.get(), *ids, {}));
  for (const double metric_without : sweep->metric)
    table.values.push_back(metric_without - sweep->base);
  const Status shown = show(table, arguments.html);
  if (!shown.ok()) return shown.error();
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_ablate(CommandOptions& command) {
  auto arguments = std::make_shared<AblateArguments>();
  arguments->run.declare(command);
  arguments->input.declare(command);
  command
      .add_option("--value", arguments->value,
                  "What is taken out: attention_head_outputs, attention_output, mlp_output, ...")
      .show_default();
  command.add_option("--sweep", arguments->sweep, "One at a time: heads, positions or layers")
      .show_default();
  command.add_option("--how", arguments->how, "zero, or mean: the mean over the text's positions")
      .show_default();
  declare_metric(command, arguments->metric).required();
  command.add_option("--html", arguments->html, "Write one self-contained page in place of text");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
