// phidias collect: values of many texts, to a folder of shards.
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands.h"
#include "edit_option.h"
#include "input_options.h"
#include "interrupt.h"
#include "phidias/dataset.h"
#include "run_options.h"
#include "terminal/progress_bar.h"
#include "terminal/terminal.h"
#include "terminal/text.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::json;

struct CollectArguments {
  RunOptions run;
  std::string data;
  std::vector<std::string> reads;
  std::vector<std::string> edits;
  std::string dtype = "bf16";
  uint64_t shard_tokens = 65536;
  bool loss = false;
  uint64_t shuffle_tokens = 0;
  uint64_t shuffle_seed = 0;
  std::string output;
  bool resume = false;
};

// Each line: a list of ids, a string, or an object with "ids" or "text".
Result<std::vector<std::vector<TokenId>>> read_data(const std::string& path,
                                                    const Tokenizer* tokenizer) {
  auto text = read_input(path);
  if (!text.ok()) return std::move(text).error();
  std::vector<std::vector<TokenId>> sequences;
  std::istringstream lines(*text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json json = Json::parse(line, nullptr, false);
    if (json.is_object()) json = json.contains("ids") ? json["ids"] : json.value("text", Json());
    std::vector<TokenId> ids;
    if (json.is_string() && tokenizer != nullptr) {
      ids = tokenizer->encode(json.get<std::string>());
    } else if (json.is_array()) {
      for (const Json& id : json) {
        if (id.is_number_integer() && id.get<int64_t>() == id.get<TokenId>())
          ids.push_back(id.get<TokenId>());
      }
      if (ids.size() != json.size()) ids.clear();
    }
    if (ids.empty()) {
      return Error{
          Code::kInvalidArgument,
          "is neither a list of token ids nor a text (for which the model needs a tokenizer)",
          {{}, {}, path + ", line " + std::to_string(number)}};
    }
    sequences.push_back(std::move(ids));
  }
  return sequences;
}

Result<int> run(const CollectArguments& arguments) {
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const Model& model = (*engine)->model();
  auto sequences = read_data(arguments.data, model.tokenizer().get());
  if (!sequences.ok()) return std::move(sequences).error();
  CollectOptions options;
  for (const std::string& path : arguments.reads) {
    auto reads = parse_read(path, model);
    if (!reads.ok()) return std::move(reads).error();
    options.reads.insert(options.reads.end(), reads->begin(), reads->end());
  }
  auto edits = read_edits(arguments.edits);
  if (!edits.ok()) return std::move(edits).error();
  options.edits = std::move(*edits);
  options.dtype = arguments.dtype;
  options.shard_tokens = arguments.shard_tokens;
  options.loss = arguments.loss;
  options.shuffle_tokens = arguments.shuffle_tokens;
  options.shuffle_seed = arguments.shuffle_seed;
  options.resume = arguments.resume;
  uint64_t tokens = 0;
  for (const auto& sequence : *sequences) tokens += sequence.size();
  const auto each = collected_bytes_per_token(model, options);
  if (!each.ok()) return each.error();
  std::fprintf(stderr, "%zu texts, %s tokens, %s a token: %s\n", sequences->size(),
               format_count(tokens).c_str(), format_bytes(*each).c_str(),
               format_bytes(*each * tokens).c_str());
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  options.progress = [&](uint64_t done, uint64_t all) {
    bar.update("tokens", done, all);
    return !interrupted();
  };
  const auto collection = collect(**engine, *sequences, arguments.output, options);
  bar.finish();
  if (!collection.ok()) {
    if (interrupted()) {
      std::fprintf(stderr, "interrupted; --resume goes on\n");
      return kExitInterrupted;
    }
    return collection.error();
  }
  std::fprintf(
      stderr, "%zu shards, %s%s\n", collection->shards, format_bytes(collection->bytes).c_str(),
      collection->reused > 0
          ? (", " + std::to_string(collection->reused) + " of them were there already").c_str()
          : "");
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_collect(CommandOptions& command) {
  auto arguments = std::make_shared<CollectArguments>();
  arguments->run.declare(command);
  command
      .add_option("--data", arguments->data,
                  "A file of lines: lists of token ids, strings, or objects with \"ids\" or "
                  "\"text\"; - for standard input")
      .required();
  command
      .add_option(
          "--read", arguments->reads,
          "A value with a row for each position, such as layers[16].layer_output. Repeatable")
      .required()
      .one_at_a_time();
  declare_edits(command, arguments->edits);
  command
      .add_option("--dtype", arguments->dtype, "f32, bf16, f16, or i8 with a scale for each token")
      .one_of({"f32", "bf16", "f16", "i8"})
      .show_default();
  command.add_option("--shard-tokens", arguments->shard_tokens, "Tokens of a shard").show_default();
  command.add_flag("--loss", arguments->loss,
                   "Also keep each token's negative log-probability, given those before it");
  command.add_option("--shuffle", arguments->shuffle_tokens,
                     "Mix so many tokens at a time, across texts, before they are written");
  command.add_option("--seed", arguments->shuffle_seed, "Of the shuffle").show_default();
  command.add_option("-o,--out", arguments->output, "The folder to write").required();
  command.add_flag("--resume", arguments->resume, "Go on with a folder that is not complete");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
