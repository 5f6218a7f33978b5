// phidias vector: a control vector from pairs of contrasting texts.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands.h"
#include "input_options.h"
#include "phidias/steering.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::json;

struct VectorArguments {
  RunOptions run;
  std::string pairs;
  std::string method = "pca_diff";
  std::string output;
};

// One side of a pair: a string, or a list of ids.
Result<std::vector<TokenId>> side(const Json& line, const char* key, const Tokenizer* tokenizer,
                                  const std::string& place) {
  const auto at = line.find(key);
  if (at != line.end() && at->is_string()) {
    if (tokenizer == nullptr)
      return Error{
          Code::kNotFound, "the checkpoint has no tokenizer; write lists of ids", {{}, {}, place}};
    return tokenizer->encode(at->get<std::string>());
  }
  std::vector<TokenId> ids;
  if (at != line.end() && at->is_array()) {
    for (const Json& id : *at) {
      if (!id.is_number_integer()) break;
      ids.push_back(id.get<TokenId>());
    }
    if (ids.size() == at->size() && !ids.empty()) return ids;
  }
  return Error{Code::kInvalidArgument,
               std::string("\"") + key + "\" must be a text or a list of token ids",
               {{}, {}, place}};
}

Result<std::vector<ContrastPair>> read_pairs(const std::string& path, const Tokenizer* tokenizer) {
  auto text = read_input(path);
  if (!text.ok()) return std::move(text).error();
  std::vector<ContrastPair> pairs;
  std::istringstream lines(*text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = path + ", line " + std::to_string(number);
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object())
      return Error{Code::kInvalidArgument, "is no JSON object", {{}, {}, place}};
    ContrastPair pair;
    auto positive = side(json, "positive", tokenizer, place);
    if (!positive.ok()) return std::move(positive).error();
    auto negative = side(json, "negative", tokenizer, place);
    if (!negative.ok()) return std::move(negative).error();
    pairs.push_back({std::move(*positive), std::move(*negative)});
  }
  return pairs;
}

Result<int> run(const VectorArguments& arguments) {
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  auto pairs = read_pairs(arguments.pairs, (*engine)->model().tokenizer().get());
  if (!pairs.ok()) return std::move(pairs).error();
  const auto method = arguments.method == "mean" ? ContrastMethod::kMean : ContrastMethod::kPcaDiff;
  const auto vector = contrast(**engine, *pairs, method);
  if (!vector.ok()) return vector.error();
  const Status saved = save_control_vector(arguments.output, *vector);
  if (!saved.ok()) return saved.error();
  std::fprintf(stderr, "%zu pairs, %zu layers: %s\n", pairs->size(), vector->directions.size(),
               arguments.output.c_str());
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_vector(CommandOptions& command) {
  auto arguments = std::make_shared<VectorArguments>();
  arguments->run.declare(command);
  command
      .add_option("--pairs", arguments->pairs,
                  "A file of lines {\"positive\": TEXT, \"negative\": TEXT}; - for standard input")
      .required();
  command
      .add_option("--method", arguments->method,
                  "mean: the mean of the differences; pca_diff: their first principal component")
      .one_of({"mean", "pca_diff"})
      .show_default();
  command.add_option("-o,--output", arguments->output, "The control vector to write (GGUF)")
      .required();
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
