// phidias patch: which layers and positions carry the difference between two texts.
#include "commands.h"
#include "common.h"
#include "html_page.h"
#include "phidias/patching.h"
#include "terminal/progress_bar.h"
#include "terminal/terminal.h"
#include "terminal/text.h"

namespace phidias::cli {
namespace {

struct PatchArguments {
  RunOptions run;
  std::string clean;
  std::string corrupt;
  std::string clean_ids;
  std::string corrupt_ids;
  std::string value = "layer_output";
  std::string metric;
  std::string html;
};

Result<std::vector<TokenId>> text_or_ids(const std::string& text, const std::string& ids,
                                         const Tokenizer* tokenizer, const char* option) {
  if (!ids.empty()) return parse_ids(ids, option);
  if (tokenizer == nullptr)
    return Error{Code::kNotFound, "the checkpoint has no tokenizer; give ids", {{}, {}, option}};
  return tokenizer->encode(text);
}

std::string name_of_token(const Tokenizer* tokenizer, TokenId id) {
  return tokenizer == nullptr ? std::to_string(id) : visible_token(tokenizer->token_bytes(id));
}

// A file of JSON, or the JSON itself.
Result<Metric> read_metric(const std::string& argument, const Model& model) {
  if (argument.starts_with('{') || argument.starts_with('['))
    return metric_from_json(argument, model);
  auto text = read_input(argument);
  if (!text.ok()) return std::move(text).error();
  return metric_from_json(*text, model, argument);
}

std::string to_text(const PatchSweep& sweep) {
  const Style style(Terminal::of(1));
  char line[96];
  std::snprintf(line, sizeof line, "metric: clean %.4f, corrupt %.4f\n", sweep.clean,
                sweep.corrupt);
  std::string text = line;
  text += "share recovered, layers downwards, positions across\n";
  for (size_t layer = 0; layer < sweep.layers; ++layer) {
    text += pad_width(std::to_string(layer), 4, Align::kRight);
    for (size_t p = 0; p < sweep.positions; ++p) {
      const double share = sweep.recovered(layer, p);
      std::snprintf(line, sizeof line, " %5.2f", share);
      text += share > 0.5 ? style.bold(line) : share > 0.1 ? std::string(line) : style.dim(line);
    }
    text += "\n";
  }
  return text;
}

std::string to_html(const PatchSweep& sweep, const std::vector<TokenId>& clean,
                    const std::vector<TokenId>& corrupt, const Tokenizer* tokenizer) {
  std::string table = "<table><tr><th>layer</th>";
  for (size_t p = 0; p < sweep.positions; ++p) {
    table += "<th>" + html_escaped(name_of_token(tokenizer, clean[p]));
    if (clean[p] != corrupt[p]) table += " / " + html_escaped(name_of_token(tokenizer, corrupt[p]));
    table += "</th>";
  }
  table += "</tr>\n";
  for (size_t layer = sweep.layers; layer-- > 0;) {
    table += "<tr><th>" + std::to_string(layer) + "</th>";
    for (size_t p = 0; p < sweep.positions; ++p) {
      char share[32];
      std::snprintf(share, sizeof share, "%.2f", sweep.recovered(layer, p));
      table += "<td style=\"" + heat_style(sweep.recovered(layer, p)) + "\">" + share + "</td>";
    }
    table += "</tr>\n";
  }
  char head[160];
  std::snprintf(
      head, sizeof head,
      "<p>Metric: clean %.4f, corrupt %.4f. Each cell: the share of their difference that "
      "comes back when the clean value is put in there.</p>",
      sweep.clean, sweep.corrupt);
  return head + table + "</table>";
}

Result<int> run(const PatchArguments& arguments) {
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const auto tokenizer = (*engine)->model().tokenizer();
  auto clean = text_or_ids(arguments.clean, arguments.clean_ids, tokenizer.get(), "--clean");
  if (!clean.ok()) return std::move(clean).error();
  auto corrupt =
      text_or_ids(arguments.corrupt, arguments.corrupt_ids, tokenizer.get(), "--corrupt");
  if (!corrupt.ok()) return std::move(corrupt).error();
  auto value = parse_value("layers[0]." + arguments.value);
  if (!value.ok()) return std::move(value).error();
  auto metric = read_metric(arguments.metric, (*engine)->model());
  if (!metric.ok()) return std::move(metric).error();
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  const auto sweep =
      patch_sweep(**engine, *clean, *corrupt, value->id, *metric, [&](size_t done, size_t all) {
        bar.update("patched runs", done, all);
        return !interrupted();
      });
  bar.finish();
  if (!sweep.ok()) return sweep.error();
  if (arguments.html.empty()) {
    print(to_text(*sweep));
    return kExitOk;
  }
  const Status saved = save_page(arguments.html, "Activation patching of " + arguments.value,
                                 to_html(*sweep, *clean, *corrupt, tokenizer.get()));
  if (!saved.ok()) return saved.error();
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_patch(CLI::App& app) {
  auto arguments = std::make_shared<PatchArguments>();
  arguments->run.declare(app);
  app.add_option("--clean", arguments->clean, "The text whose values are put in");
  app.add_option("--corrupt", arguments->corrupt, "The text they are put into, equally long");
  app.add_option("--clean-ids", arguments->clean_ids, "The same as token ids");
  app.add_option("--corrupt-ids", arguments->corrupt_ids, "The same as token ids");
  app.add_option("--value", arguments->value,
                 "What is put in: layer_output, attention_output, mlp_output, ...")
      ->capture_default_str();
  app.add_option("--metric", arguments->metric,
                 "A JSON file, or the JSON itself: {\"logit_diff\": [\" Paris\", \" Rome\"]}")
      ->required();
  app.add_option("--html", arguments->html, "Write one self-contained page in place of text");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
