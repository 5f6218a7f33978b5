// phidias lens: what each layer's output would predict at each position.
#include "phidias/lens.h"

#include <algorithm>

#include "commands.h"
#include "edit_option.h"
#include "html_page.h"
#include "input_options.h"
#include "output.h"
#include "run_options.h"
#include "terminal/terminal.h"
#include "terminal/text.h"

namespace phidias::cli {
namespace {

struct LensArguments {
  RunOptions run;
  InputOptions input;
  size_t top = 5;
  std::string at = "all";
  std::vector<std::string> edits;
  std::string html;
};

std::string token_text(const Tokenizer* tokenizer, TokenId id) {
  return tokenizer == nullptr ? std::to_string(id) : visible_token(tokenizer->token_bytes(id));
}

constexpr size_t kCell = 10;  // columns of a token in the terminal

// Positions downwards, layers across where they fit: the last ones, which say most.
std::string to_text(const Lens& lens, const std::vector<TokenId>& ids, const Tokenizer* tokenizer) {
  const Terminal terminal = Terminal::of(1);
  const Style style(terminal);
  const size_t room =
      std::max<size_t>(1, (std::max<size_t>(terminal.width, 40) - kCell - 7) / (kCell + 1));
  const size_t shown = std::min(room, lens.layers);
  std::string text = std::string(kCell + 6, ' ');
  for (size_t layer = lens.layers - shown; layer < lens.layers; ++layer)
    text += " " + pad_width("layer " + std::to_string(layer), kCell);
  text += "\n";
  for (size_t i = 0; i < lens.positions.size(); ++i) {
    const uint32_t position = lens.positions[i];
    text += pad_width(std::to_string(position), 5, Align::kRight) + " " +
            pad_width(fit_width(token_text(tokenizer, ids[position]), kCell), kCell);
    for (size_t layer = lens.layers - shown; layer < lens.layers; ++layer) {
      const TopToken& best = lens.at(layer, i).front();
      const std::string cell = pad_width(fit_width(token_text(tokenizer, best.id), kCell), kCell);
      text += " ";
      text += best.probability > 0.5F   ? style.bold(style.colour(Colour::kGreen, cell))
              : best.probability > 0.1F ? style.colour(Colour::kCyan, cell)
                                        : style.dim(cell);
    }
    text += "\n";
  }
  return text;
}

std::string to_html(const Lens& lens, const std::vector<TokenId>& ids, const Tokenizer* tokenizer) {
  std::string table = "<table><tr><th>layer</th>";
  for (const uint32_t position : lens.positions)
    table += "<th>" + std::to_string(position) + " " +
             html_escaped(token_text(tokenizer, ids[position])) + "</th>";
  table += "</tr>\n";
  for (size_t layer = lens.layers; layer-- > 0;) {
    table += "<tr><th>" + std::to_string(layer) + "</th>";
    for (size_t i = 0; i < lens.positions.size(); ++i) {
      const auto& best = lens.at(layer, i);
      std::string tip;
      for (const TopToken& token : best) {
        char share[32];
        std::snprintf(share, sizeof share, " %.4f", static_cast<double>(token.probability));
        tip += (tip.empty() ? "" : "\n") + token_text(tokenizer, token.id) + share;
      }
      table += "<td style=\"" + heat_style(static_cast<double>(best.front().probability)) +
               "\" title=\"" + html_escaped(tip) + "\">" +
               html_escaped(token_text(tokenizer, best.front().id)) + "</td>";
    }
    table += "</tr>\n";
  }
  return "<p>The likeliest token after each position if the stream ended at each layer; darker is "
         "likelier. Hold the pointer over a cell for more.</p>" +
         table + "</table>";
}

Result<int> run(const LensArguments& arguments) {
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const auto tokenizer = (*engine)->model().tokenizer();
  auto ids = arguments.input.read_ids(tokenizer.get());
  if (!ids.ok()) return std::move(ids).error();
  LensOptions options;
  options.top = std::max<size_t>(1, arguments.top);
  auto at = Positions::parse(arguments.at);
  if (!at.ok()) return std::move(at).error();
  options.at = std::move(*at);
  auto edits = read_edits(arguments.edits);
  if (!edits.ok()) return std::move(edits).error();
  options.edits = std::move(*edits);
  const auto lens = logit_lens(**engine, *ids, options);
  if (!lens.ok()) return lens.error();
  if (arguments.html.empty()) {
    print(to_text(*lens, *ids, tokenizer.get()));
    return kExitOk;
  }
  const Status saved =
      save_page(arguments.html, "Logit lens", to_html(*lens, *ids, tokenizer.get()));
  if (!saved.ok()) return saved.error();
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_lens(CommandOptions& command) {
  auto arguments = std::make_shared<LensArguments>();
  arguments->run.declare(command);
  arguments->input.declare(command);
  command.add_option("--topk", arguments->top, "Tokens of each cell of the page").show_default();
  command.add_option("--at", arguments->at, "Positions: all, last, 4:, 2,5").show_default();
  declare_edits(command, arguments->edits);
  command.add_option("--html", arguments->html, "Write one self-contained page in place of text");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
