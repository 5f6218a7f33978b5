// phidias perplexity.
#include <nlohmann/json.hpp>

#include "commands.h"
#include "input_options.h"
#include "interrupt.h"
#include "output.h"
#include "phidias/perplexity.h"
#include "run_options.h"
#include "terminal/progress_bar.h"

namespace phidias::cli {
namespace {

struct PerplexityArguments {
  RunOptions run;
  std::string file;
  std::string ids_file;
  PerplexityOptions options;
  bool json = false;
};

Result<int> run(PerplexityArguments arguments) {
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  auto policy = arguments.run.rope_policy();
  if (!policy.ok()) return std::move(policy).error();
  arguments.options.rope_switch = *policy;
  InputOptions input;
  input.file = arguments.file;
  input.ids_file = arguments.ids_file;
  auto ids = input.read_ids((*engine)->model().tokenizer().get());
  if (!ids.ok()) return std::move(ids).error();
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  arguments.options.progress = [&bar](size_t done, size_t total) {
    bar.update("windows", done, total);
    return !interrupted();
  };
  auto result = perplexity(**engine, *ids, arguments.options);
  bar.finish();
  if (!result.ok()) {
    if (result.error().code == Code::kCancelled) return kExitInterrupted;
    return std::move(result).error();
  }
  if (arguments.json) {
    nlohmann::ordered_json json = {{"windows", result->windows},
                                   {"tokens", result->tokens},
                                   {"perplexity", result->perplexity}};
    if (result->kl_mean) {
      json["kl_mean"] = *result->kl_mean;
      json["kl_p99"] = *result->kl_p99;
      json["same_best"] = *result->same_best;
    }
    print(json.dump() + "\n");
    return kExitOk;
  }
  char line[200];
  std::snprintf(line, sizeof line, "perplexity %.5f over %llu tokens in %zu windows\n",
                result->perplexity, static_cast<unsigned long long>(result->tokens),
                result->windows.size());
  print(line);
  if (result->kl_mean) {
    std::snprintf(line, sizeof line,
                  "divergence: mean %.6f, 99th percentile %.6f; same best token %.2f %%\n",
                  *result->kl_mean, *result->kl_p99, 100 * *result->same_best);
    print(line);
  }
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_perplexity(CommandOptions& command) {
  auto arguments = std::make_shared<PerplexityArguments>();
  arguments->run.declare(command);
  CommandOptions group = command.add_group("input", "What to score: exactly one of these");
  group.add_option("--file", arguments->file, "A file of text; - for standard input");
  group.add_option("--ids-file", arguments->ids_file, "A file of token ids");
  group.require(1, 1);
  command
      .add_option("--window", arguments->options.window,
                  "Tokens of a window; the first of each is not scored")
      .in_range(2U, 1U << 24)
      .show_default();
  const Option save = command.add_option("--save-logits", arguments->options.save_log_probabilities,
                                         "Write log-probabilities (f16 safetensors)");
  command
      .add_option("--against", arguments->options.against,
                  "Compare with log-probabilities that another run saved")
      .excludes(save);
  command.add_flag("--json", arguments->json,
                   "{\"windows\": [...], \"tokens\": n, \"perplexity\": x}");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
