// phidias tokenize, phidias detokenize.
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "input_options.h"
#include "output.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::json;

std::string joined(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text + "\n";
}

// ASCII alone: a line stays one line for every reader, also where the text has U+2028.
std::string json_line(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

// Prints what `handle` makes of each line of standard input, until one is not what is expected.
template <typename Handle>
Result<int> for_each_json_line(Handle handle) {
  std::string line;
  for (size_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    Result<Json> answer = handle(Json::parse(line, nullptr, false));
    if (!answer.ok()) {
      Error error = std::move(answer).error();
      error.place = {"standard input", {}, "line " + std::to_string(number)};
      return error;
    }
    if (!print(json_line(*answer))) return kExitFailed;  // nobody reads any more
  }
  return kExitOk;
}

struct TokenizeOptions {
  ModelOption model;
  bool no_add_special = false;
  bool plain = false;
  bool jsonl = false;
  std::string text;
  std::string file;
};

struct DetokenizeOptions {
  ModelOption model;
  bool skip_special = false;
  bool stream = false;
  bool jsonl = false;
  std::string ids;
};

Result<int> tokenize(const TokenizeOptions& options) {
  auto tokenizer = load_tokenizer(options.model);
  if (!tokenizer.ok()) return std::move(tokenizer).error();
  const EncodeOptions encode{
      .add_special = !options.no_add_special, .markers = !options.plain, .guard = 0};
  if (options.jsonl) {
    return for_each_json_line([&](const Json& line) -> Result<Json> {
      if (!line.is_string()) return Error{Code::kInvalidArgument, "is not a JSON string", {}};
      return Json((*tokenizer)->encode(line.get<std::string>(), encode));
    });
  }
  std::string text = options.text;
  if (!options.file.empty()) {
    auto read = read_input(options.file);
    if (!read.ok()) return std::move(read).error();
    text = std::move(*read);
  }
  print(joined((*tokenizer)->encode(text, encode)));
  return kExitOk;
}

std::vector<std::string> streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                                  bool skip_special) {
  DecodeStream stream(tokenizer, skip_special);
  std::vector<std::string> chunks;
  for (const TokenId id : ids) chunks.push_back(stream.push(id));
  chunks.push_back(stream.flush());
  return chunks;
}

Result<int> detokenize(const DetokenizeOptions& options) {
  auto tokenizer = load_tokenizer(options.model);
  if (!tokenizer.ok()) return std::move(tokenizer).error();
  if (options.jsonl) {
    return for_each_json_line([&](const Json& line) -> Result<Json> {
      std::vector<TokenId> ids;
      for (const Json& id : line.is_array() ? line : Json::array({nullptr})) {
        if (!id.is_number_integer() || id < std::numeric_limits<TokenId>::min() ||
            id > std::numeric_limits<TokenId>::max()) {
          return Error{Code::kInvalidArgument, "is not a JSON array of token ids", {}};
        }
        ids.push_back(id.get<TokenId>());
      }
      if (options.stream) return Json(streamed(**tokenizer, ids, options.skip_special));
      return Json((*tokenizer)->decode(ids, options.skip_special));
    });
  }
  auto ids = parse_ids(options.ids, "--ids");
  if (!ids.ok()) return std::move(ids).error();
  for (const TokenId id : *ids) {
    if (id < 0 || static_cast<size_t>(id) >= (*tokenizer)->size()) {
      return Error{Code::kInvalidArgument,
                   std::to_string(id) + " is outside the vocabulary, whose last id is " +
                       std::to_string((*tokenizer)->size() - 1),
                   {{}, {}, "--ids"}};
    }
  }
  if (options.stream) {
    for (const std::string& chunk : streamed(**tokenizer, *ids, options.skip_special)) print(chunk);
    print("\n");
  } else {
    print((*tokenizer)->decode(*ids, options.skip_special) + "\n");
  }
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_tokenize(CommandOptions& command) {
  auto options = std::make_shared<TokenizeOptions>();
  options->model.declare(command);
  command.add_flag("--no-add-special", options->no_add_special,
                   "Leave out what the tokenizer puts in front of or behind a text");
  command.add_flag("--plain", options->plain,
                   "Markers in the text, such as <|end|>, are ordinary text");
  CommandOptions group = command.add_group("input", "What to read: exactly one of these");
  group.add_option("--text", options->text, "Text");
  group.add_option("--file", options->file, "A file of text; - for standard input");
  group.add_flag(
      "--jsonl", options->jsonl,
      "Each line of standard input is a JSON string, each line of output an array of ids");
  group.require(1, 1);
  return [options] { return tokenize(*options); };
}

std::function<Result<int>()> setup_detokenize(CommandOptions& command) {
  auto options = std::make_shared<DetokenizeOptions>();
  options->model.declare(command);
  command.add_flag("--skip-special", options->skip_special, "Leave special tokens out of the text");
  command.add_flag("--stream", options->stream,
                   "Decode id by id; with --jsonl, print what each id gave and then the rest");
  CommandOptions group = command.add_group("input", "What to read: exactly one of these");
  group.add_option("--ids", options->ids, "Token ids, separated by commas");
  group.add_flag(
      "--jsonl", options->jsonl,
      "Each line of standard input is an array of ids, each line of output a JSON string");
  group.require(1, 1);
  return [options] { return detokenize(*options); };
}

}  // namespace phidias::cli
