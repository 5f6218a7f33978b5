// phidias generate.
#include <chrono>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "edit_option.h"
#include "images.h"
#include "input_options.h"
#include "interrupt.h"
#include "output.h"
#include "phidias/generation.h"
#include "phidias/prompt.h"
#include "run_options.h"
#include "sampling_arguments.h"
#include "terminal/terminal.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTagBegin = "<|image_";

struct GenerateArguments {
  RunOptions run;
  SamplingArguments sampling;
  InputOptions input;
  ImageArguments images;
  std::string prompt;
  Option prompt_option;
  bool chat = false;
  std::string system;
  bool obey_markers = false;
  bool no_add_special = false;
  uint32_t max_tokens = 256;
  uint32_t choices = 1;
  std::vector<std::string> stop;
  std::string stop_ids;
  Option stop_ids_option;
  bool show_special = false;
  std::optional<uint32_t> top_log_probabilities;
  bool echo = false;
  bool stats = false;
  std::vector<std::string> edits;
  bool json = false;
};

Result<std::vector<TokenId>> prompt_ids(const GenerateArguments& arguments, const Model& model,
                                        const std::vector<ImageHandle>& images) {
  const auto tokenizer = model.tokenizer();
  if (!arguments.input.given() || arguments.input.is_text()) {
    if (!tokenizer)
      return Error{
          Code::kNotFound, "the checkpoint has no tokenizer to encode text with; give --ids", {}};
  } else {
    return arguments.input.read_ids(nullptr);
  }
  std::string text = arguments.prompt;
  if (arguments.input.is_text()) {
    auto read = arguments.input.read_text();
    if (!read.ok()) return std::move(read).error();
    text = std::move(*read);
  }
  if (!arguments.chat) {
    auto encoded =
        encode_with_images(*tokenizer, text, images,
                           {.add_special = !arguments.no_add_special, .markers = true, .guard = 0});
    if (!encoded.ok()) return encoded;
    const std::vector<TokenId>& ids = *encoded;
    if (ids.size() > 1 && ids[0] == ids[1] && tokenizer->bos() == ids[0]) {
      std::fprintf(
          stderr,
          "warning: the prompt begins with %s twice, since the tokenizer adds one; leave it "
          "out of the text or give --no-add-special\n",
          tokenizer->token_bytes(ids[0]).c_str());
    }
    return encoded;
  }
  const auto chat_template = model.chat_template();
  if (!chat_template)
    return Error{Code::kNotFound,
                 "the checkpoint has no chat template; leave --chat out and write the whole prompt",
                 {}};
  std::vector<ChatMessage> messages;
  if (!arguments.system.empty()) messages.push_back({"system", arguments.system});
  if (text.find(kTagBegin) == std::string::npos) text = with_image_tags(text, 1, images.size());
  messages.push_back({"user", text});
  auto prompt = chat_prompt(*tokenizer, *chat_template, messages, {}, arguments.obey_markers,
                            model.info().vision ? &images : nullptr);
  if (!prompt.ok()) return std::move(prompt).error();
  warn_untraced(messages, *prompt);
  return std::move(prompt->ids);
}

Json to_json(const GenerateResult& result, const Tokenizer* tokenizer, bool with_scores) {
  auto token_json = [&](TokenId id, double log_probability) {
    Json json = {{"id", id}, {"logprob", log_probability}};
    if (tokenizer != nullptr) {
      json["text"] = tokenizer->decode(std::span(&id, 1));
      json["bytes"] =
          Json::array();  // a token may be a part of a character, which text cannot show
      for (const char byte : tokenizer->token_bytes(id)) {
        json["bytes"].push_back(static_cast<unsigned char>(byte));
      }
    }
    return json;
  };
  Json choices = Json::array();
  for (const Choice& choice : result.choices) {
    Json ids = Json::array();
    Json scores = Json::array();
    for (const GeneratedToken& token : choice.tokens) {
      ids.push_back(token.id);
      if (!with_scores) continue;
      Json score = token_json(token.id, token.log_probability);
      score["top"] = Json::array();
      for (const TokenLogProbability& other : token.best)
        score["top"].push_back(token_json(other.id, other.log_probability));
      scores.push_back(std::move(score));
    }
    Json json = {{"text", choice.text}, {"ids", ids}, {"finish_reason", name_of(choice.finish)}};
    if (!choice.stopped_by.empty()) json["stopped_by"] = choice.stopped_by;
    if (with_scores) json["logprobs"] = scores;
    if (choice.error) json["error"] = choice.error->to_string();
    choices.push_back(std::move(json));
  }
  return {
      {"choices", choices},
      {"usage",
       {{"prompt_tokens", result.prompt_tokens}, {"completion_tokens", result.generated_tokens}}},
      {"first_token_s", result.first_token_seconds},
      {"total_s", result.total_seconds}};
}

void print_stats(const GenerateResult& result) {
  const double decode = result.total_seconds - result.first_token_seconds;
  const double decoded =
      static_cast<double>(result.generated_tokens) - static_cast<double>(result.choices.size());
  std::fprintf(stderr, "prompt: %u tokens in %.2f s, %.1f tokens/s; answer: %u tokens",
               result.prompt_tokens, result.first_token_seconds,
               result.prompt_tokens / std::max(result.first_token_seconds, 1e-9),
               result.generated_tokens);
  if (decoded > 0) std::fprintf(stderr, ", %.1f tokens/s", decoded / std::max(decode, 1e-9));
  std::fprintf(stderr, "\n");
}

Result<int> run(const GenerateArguments& arguments) {
  GenerateRequest request;
  auto sampling = arguments.sampling.resolve();
  if (!sampling.ok()) return std::move(sampling).error();
  request.sampling = std::move(*sampling);
  if (!arguments.input.given() && !arguments.prompt_option.given()) {
    return Error{Code::kInvalidArgument,
                 "give a prompt with -p, or one of --text, --file, --ids, --ids-file",
                 {}};
  }
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const Model& model = (*engine)->model();
  install_interrupt_handler();
  auto images = arguments.images.encode(**engine);
  if (!images.ok()) {
    if (images.error().code == Code::kCancelled) return kExitInterrupted;
    return std::move(images).error();
  }
  auto ids = prompt_ids(arguments, model, *images);
  if (!ids.ok()) return std::move(ids).error();
  request.prompt = std::move(*ids);
  request.images = std::move(*images);
  request.max_tokens = arguments.max_tokens;
  request.choices = arguments.choices;
  request.stop_strings = arguments.stop;
  if (arguments.stop_ids_option.given()) {
    auto stop_ids = parse_ids(arguments.stop_ids, "--stop-ids");
    if (!stop_ids.ok()) return std::move(stop_ids).error();
    request.stop_ids = std::move(*stop_ids);
  }
  request.top_log_probabilities = arguments.top_log_probabilities;
  request.skip_special = !arguments.show_special;
  auto policy = arguments.run.rope_policy();
  if (!policy.ok()) return std::move(policy).error();
  request.rope_switch = *policy;
  auto edits = read_edits(arguments.edits);
  if (!edits.ok()) return std::move(edits).error();
  request.edits = std::move(*edits);

  const auto tokenizer = model.tokenizer();
  const bool streamed = !arguments.json && arguments.choices == 1;
  if (streamed && arguments.echo && tokenizer)
    print(tokenizer->decode(request.prompt, !arguments.show_special));
  bool readable = true;
  auto result = generate(**engine, request, [&](const GenerateEvent& event) {
    if (streamed && tokenizer) readable = print(event.text);
    if (streamed && !tokenizer && event.token != nullptr)
      readable = print(std::to_string(event.token->id) + " ");
    return readable && !interrupted();
  });
  if (!result.ok()) return std::move(result).error();
  if (arguments.json) {
    print(to_json(*result, tokenizer.get(), arguments.top_log_probabilities.has_value())
              .dump(-1, ' ', false, Json::error_handler_t::replace) +
          "\n");
  } else if (streamed) {
    print("\n");
  } else {
    for (size_t i = 0; i < result->choices.size(); ++i) {
      std::string text = "[" + std::to_string(i) + "] " + result->choices[i].text;
      if (!tokenizer) {
        for (const GeneratedToken& token : result->choices[i].tokens)
          text += std::to_string(token.id) + " ";
      }
      print(text + "\n");
    }
  }
  if (arguments.stats) print_stats(*result);
  for (size_t i = 0; i < request.edits.size(); ++i) {
    if (result->choices.front().traced.edits.at(i).rows == 0)
      std::fprintf(stderr, "warning: edit %zu touched no position\n", i + 1);
  }
  for (const Choice& choice : result->choices) {
    if (choice.error) return *choice.error;
  }
  return interrupted() ? kExitInterrupted : kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_generate(CommandOptions& command) {
  auto arguments = std::make_shared<GenerateArguments>();
  arguments->run.declare(command);
  arguments->prompt_option = command.add_option(
      "-p,--prompt", arguments->prompt, "The text to go on with, or with --chat the question");
  arguments->input.declare(command);
  arguments->images.declare(command);
  // What would be ignored is wrong usage.
  for (Option option : {arguments->input.ids_option, arguments->input.text_option,
                        arguments->input.ids_file_option, arguments->input.file_option}) {
    arguments->prompt_option.excludes(option);
  }
  const Option chat =
      command.add_flag("--chat", arguments->chat,
                       "Put the prompt into the checkpoint's chat template as a user's message");
  chat.excludes(arguments->input.ids_option).excludes(arguments->input.ids_file_option);
  command.add_option("--system", arguments->system, "With --chat: a system message before it")
      .needs(chat);
  command
      .add_flag("--obey-markers", arguments->obey_markers,
                "With --chat: markers such as <|end|> in the prompt act as markers")
      .needs(chat);
  command.add_flag("--no-add-special", arguments->no_add_special,
                   "Leave out what the tokenizer puts in front of a text");
  command
      .add_option("-n,--max-tokens", arguments->max_tokens,
                  "Tokens of the answer at most; 0: until the context is full")
      .show_default();
  command.add_option("--choices", arguments->choices, "So many answers to the one prompt")
      .show_default();
  command.add_option("--stop", arguments->stop, "End before this text. Repeatable").one_at_a_time();
  arguments->stop_ids_option = command.add_option(
      "--stop-ids", arguments->stop_ids, "Stop ids in place of the model's own; \"\" for none");
  command.add_flag("--show-special", arguments->show_special, "Show special tokens in the text");
  const Option json =
      command.add_flag("--json", arguments->json, "Print the whole result as JSON at the end");
  command
      .add_option("--logprobs", arguments->top_log_probabilities,
                  "With --json: log-probabilities of each token and of the N likeliest")
      .needs(json);
  command.add_flag("--echo", arguments->echo, "Print the prompt first").excludes(json);
  command.add_flag("--stats", arguments->stats, "Say afterwards how long it took");
  declare_edits(command, arguments->edits);
  arguments->sampling.declare(command);
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
