// phidias heads: what the attention heads look at.
#include <algorithm>
#include <numeric>
#include <sstream>

#include "commands.h"
#include "html_page.h"
#include "input_options.h"
#include "output.h"
#include "phidias/heads.h"
#include "phidias/trace.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

struct HeadsArguments {
  RunOptions run;
  InputOptions input;
  std::string scores = "induction,previous,first";
  size_t top = 5;
  std::optional<int32_t> layer;
  std::string html;
};

std::string best_heads(const Tensor& scores, size_t top) {
  const size_t heads = scores.shape[1];
  std::vector<size_t> order(scores.floats.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores.floats[a] > scores.floats[b]; });
  std::string text;
  for (size_t i = 0; i < std::min(top, order.size()); ++i) {
    char line[80];
    std::snprintf(line, sizeof line, "  layer %-3zu head %-3zu %.4f\n", order[i] / heads,
                  order[i] % heads, static_cast<double>(scores.floats[order[i]]));
    text += line;
  }
  return text;
}

// All heads' patterns of one layer, as pictures.
Result<int> picture(Engine& engine, const std::vector<TokenId>& ids, int32_t layer,
                    const std::string& path) {
  Trace trace(engine, ids);
  const auto pattern = trace.read(kValues.layers[layer].self_attn.attention_probabilities);
  const auto traced = trace.run();
  if (!traced.ok()) return traced.error();
  const Tensor& p = (*traced)[pattern];
  const auto tokenizer = engine.model().tokenizer();
  std::vector<std::string> names;
  for (size_t i = 0; i < ids.size(); ++i) {
    names.push_back(
        std::to_string(i) + " " +
        (tokenizer ? visible_token(tokenizer->token_bytes(ids[i])) : std::to_string(ids[i])));
  }
  std::string body = "<p>Each row is a query, each column a key; darker is more attention.</p>";
  const size_t n = ids.size();
  for (size_t h = 0; h < p.shape[1]; ++h) {
    body += "<figure>" + svg_heat(std::span(p.floats).subspan(h * n * n, n * n), n, names) +
            "<figcaption>head " + std::to_string(h) + "</figcaption></figure>\n";
  }
  const Status saved = save_page(path, "Attention of layer " + std::to_string(layer), body);
  if (!saved.ok()) return saved.error();
  return kExitOk;
}

Result<int> run(const HeadsArguments& arguments) {
  if (arguments.layer.has_value() != !arguments.html.empty())
    return Error{Code::kInvalidArgument, "--layer and --html go together", {}};
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  auto ids = arguments.input.read_ids((*engine)->model().tokenizer().get());
  if (!ids.ok()) return std::move(ids).error();
  if (arguments.layer) return picture(**engine, *ids, *arguments.layer, arguments.html);
  std::istringstream names(arguments.scores);
  for (std::string name; std::getline(names, name, ',');) {
    const auto kind = head_score_from_name(name);
    if (!kind.ok()) return kind.error();
    const auto scores = head_scores(**engine, *ids, *kind);
    if (!scores.ok()) return scores.error();
    print(name + "\n" + best_heads(*scores, arguments.top));
  }
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_heads(CommandOptions& command) {
  auto arguments = std::make_shared<HeadsArguments>();
  arguments->run.declare(command);
  arguments->input.declare(command);
  command
      .add_option("--score", arguments->scores,
                  "Which heads to look for: induction, previous, first, current; with commas")
      .show_default();
  command.add_option("--topk", arguments->top, "Heads to show of each kind").show_default();
  command.add_option("--layer", arguments->layer,
                     "With --html: the layer whose patterns are drawn");
  command.add_option("--html", arguments->html,
                     "Draw all heads of a layer on one self-contained page");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
