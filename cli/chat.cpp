// phidias chat: a conversation in the terminal.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "commands.h"
#include "conversation.h"
#include "images.h"
#include "input_options.h"
#include "interrupt.h"
#include "line_reader.h"
#include "output.h"
#include "run_options.h"
#include "sampling_arguments.h"
#include "terminal/terminal.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ChatArguments {
  RunOptions run;
  SamplingArguments sampling;
  std::string system;
  uint32_t max_tokens = 0;
  bool obey_markers = false;
  bool stats = false;
  uint32_t crops = 0;
};

// The /commands of one chat.
class ChatSession {
 public:
  ChatSession(Engine& engine, Conversation::Settings settings, bool interactive, bool stats,
              uint32_t crops)
      : engine_(&engine),
        conversation_(engine, std::move(settings)),
        style_(Terminal::of(1)),
        interactive_(interactive),
        stats_(stats),
        crops_(crops),
        lines_(interactive) {}

  Result<int> run() {
    if (interactive_) greet();
    std::string text;
    while (true) {
      const auto outcome = read_message(text);
      if (outcome == LineReader::Outcome::kEnd) break;
      if (outcome == LineReader::Outcome::kInterrupted || text.empty()) continue;
      if (text.front() == '/') {
        if (!command(text)) break;
        continue;
      }
      show_result(conversation_.say(text, shower()));
    }
    if (interactive_) std::printf("\n");
    return failed_ ? kExitFailed : kExitOk;
  }

 private:
  void greet() {
    const ModelInfo& info = engine_->model().info();
    std::printf("%s  %s, %u layers, context %u\n", style_.bold("phidias").c_str(),
                info.path.c_str(), info.num_layers, engine_->context());
    std::printf(
        "%s\n",
        style_.dim("Type a message. /help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.")
            .c_str());
  }

  // A line, or several between lines of three quotation marks.
  LineReader::Outcome read_message(std::string& text) {
    auto outcome = lines_.read(text);
    if (outcome != LineReader::Outcome::kLine || text != "\"\"\"") return outcome;
    text.clear();
    std::string line;
    while ((outcome = lines_.read(line, true)) == LineReader::Outcome::kLine && line != "\"\"\"")
      text += line + "\n";
    if (outcome == LineReader::Outcome::kInterrupted) return outcome;
    if (!text.empty()) text.pop_back();
    return LineReader::Outcome::kLine;
  }

  std::function<bool(std::string_view)> shower() {
    return [](std::string_view piece) { return print(piece) && !interrupted(); };
  }

  void show_result(const Result<GenerateResult>& result) {
    const bool stopped = interrupted();
    clear_interrupt();
    print("\n");
    if (!result.ok()) {
      failed_ = !interactive_;
      std::fprintf(stderr, "phidias: %s\n", result.error().to_string().c_str());
      if (result.error().code == Code::kCapacityExceeded)
        std::fprintf(stderr,
                     "/reset begins a new conversation, /undo takes back the last message\n");
      return;
    }
    if (stopped && interactive_) std::printf("%s\n", style_.dim("(stopped)").c_str());
    if (result->choices.front().finish == FinishReason::kLength && interactive_) {
      std::printf("%s\n", style_.dim("(cut off at the limit of tokens)").c_str());
    }
    last_ = *result;
    if (stats_) stats();
  }

  void stats() const {
    const double decode = last_.total_seconds - last_.first_token_seconds;
    std::fprintf(stderr, "%s\n",
                 style_
                     .dim("prompt " + std::to_string(last_.prompt_tokens) + " tokens (" +
                          std::to_string(last_.cached_tokens) + " cached), first token after " +
                          number(last_.first_token_seconds) + " s; answer " +
                          std::to_string(last_.generated_tokens) + " tokens, " +
                          number(last_.generated_tokens > 1
                                     ? (last_.generated_tokens - 1) / std::max(decode, 1e-9)
                                     : 0) +
                          " tokens/s")
                     .c_str());
  }
  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
  }

  // False ends the chat.
  bool command(const std::string& text) {
    const size_t space = text.find(' ');
    const std::string name =
        text.substr(1, space == std::string::npos ? std::string::npos : space - 1);
    const std::string rest = space == std::string::npos ? "" : text.substr(space + 1);
    if (name == "exit" || name == "quit" || name == "bye") return false;
    if (name == "help" || name == "?")
      help();
    else if (name == "reset" || name == "clear" || name == "new")
      conversation_.reset();
    else if (name == "undo")
      say(conversation_.undo() ? "taken back" : "there is nothing to take back");
    else if (name == "again" || name == "regen") {
      auto& sampling = conversation_.settings().sampling;
      if (sampling.temperature > 0) ++sampling.seed;  // another draw
      show_result(conversation_.again(shower()));
    } else if (name == "system") {
      if (rest.empty())
        say(conversation_.settings().system.empty() ? "no system message"
                                                    : conversation_.settings().system);
      else
        conversation_.settings().system = rest == "none" ? "" : rest;
    } else if (name == "set")
      set(rest);
    else if (name == "stats")
      stats();
    else if (name == "image")
      image(rest);
    else if (name == "tokens")
      say(std::to_string(conversation_.prompt_tokens()) + " of " +
          std::to_string(engine_->context()) + " tokens");
    else if (name == "save")
      save(rest);
    else if (name == "load")
      load(rest);
    else if (name == "show")
      for (const ChatMessage& message : conversation_.messages())
        say(message.role + ": " + message.content);
    else
      say("there is no /" + name + "; /help lists the commands");
    return true;
  }

  static void say(const std::string& text) { print(text + "\n"); }

  static void help() {
    print(
        "/help              this list\n"
        "/system TEXT       set the system message (none: remove it; no text: show it)\n"
        "/reset             begin a new conversation\n"
        "/undo              take back the last message and its answer\n"
        "/again             answer the last message once more\n"
        "/set NAME VALUE    temperature, top_p, top_k, min_p, seed, max_tokens, "
        "repetition_penalty\n"
        "/image FILE        show an image with the next message (models that see)\n"
        "/stats             how long the last answer took\n"
        "/tokens            how much of the context is used\n"
        "/show              the conversation so far\n"
        "/save FILE         write the conversation as JSON; /load FILE reads it\n"
        "/exit              end (also Ctrl-D)\n"
        "\"\"\"                begins and ends a message of several lines\n");
  }

  void image(const std::string& file) {
    if (file.empty()) return say("name a file: /image FILE");
    auto image = encode_shown(*engine_, file, crops_);
    clear_interrupt();
    if (!image.ok()) {
      failed_ = !interactive_;
      std::fprintf(stderr, "phidias: %s\n", image.error().to_string().c_str());
      return;
    }
    if (interactive_) {
      say(style_.dim(std::to_string((*image)->width) + " x " + std::to_string((*image)->height) +
                     " pixels, " + std::to_string((*image)->tokens) +
                     " tokens; the next message shows it"));
    }
    conversation_.show(std::move(*image));
  }

  void set(const std::string& text) {
    auto& settings = conversation_.settings();
    SamplingOptions sampling = settings.sampling;
    uint32_t max_tokens = settings.max_tokens;
    const size_t space = text.find(' ');
    const std::string name = text.substr(0, space);
    char* end = nullptr;
    const std::string digits = space == std::string::npos ? "" : text.substr(space + 1);
    const double value = std::strtod(digits.c_str(), &end);
    if (digits.empty() || *end != '\0' || !std::isfinite(value)) {
      say("temperature " + number(sampling.temperature) + ", top_p " + number(sampling.top_p) +
          ", top_k " + std::to_string(sampling.top_k) + ", min_p " + number(sampling.min_p) +
          ", seed " + std::to_string(sampling.seed) + ", max_tokens " + std::to_string(max_tokens) +
          ", repetition_penalty " + number(sampling.repetition_penalty));
      return;
    }
    const double whole = std::min(std::max(value, 0.0), 4294967295.0);
    if (name == "temperature" || name == "temp")
      sampling.temperature = value;
    else if (name == "top_p")
      sampling.top_p = value;
    else if (name == "top_k")
      sampling.top_k = static_cast<uint32_t>(whole);
    else if (name == "min_p")
      sampling.min_p = value;
    else if (name == "repetition_penalty")
      sampling.repetition_penalty = value;
    else if (name == "seed")
      sampling.seed = std::strtoull(digits.c_str(), nullptr, 10);
    else if (name == "max_tokens")
      max_tokens = static_cast<uint32_t>(whole);
    else
      return say("there is no setting \"" + name + "\"; /help lists them");
    const Status valid = sampling.validate();
    if (!valid.ok()) return say(valid.error().to_string());
    settings.sampling = sampling;
    settings.max_tokens = max_tokens;
  }

  void save(const std::string& path) {
    if (path.empty()) return say("name a file: /save FILE");
    Json json = Json::array();
    const std::string& system = conversation_.settings().system;
    if (!system.empty()) json.push_back({{"role", "system"}, {"content", system}});
    for (const ChatMessage& message : conversation_.messages())
      json.push_back({{"role", message.role}, {"content", message.content}});
    // Written beside it and renamed; in place where it is no regular file, such as a device or a
    // folder. A link stays one: its file is replaced.
    std::error_code failure;
    const auto status = std::filesystem::status(path, failure);
    const bool regular = std::filesystem::is_regular_file(status);
    const bool in_place = std::filesystem::exists(status) && !regular;
    std::filesystem::path target = path;
    if (regular) target = std::filesystem::canonical(path, failure);
    std::filesystem::path written = target;
    if (!in_place) written += ".part";
    std::ofstream file(written, std::ios::binary);
    file << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    file.close();
    failure.clear();
    if (file && !in_place) std::filesystem::rename(written, target, failure);
    if (!file || failure) {
      if (!in_place) std::filesystem::remove(written, failure);
      return say("cannot write \"" + path + "\"");
    }
    say("saved");
  }

  void load(const std::string& path) {
    auto text = read_input(path);
    if (!text.ok()) return say(text.error().to_string());
    const Json json = Json::parse(*text, nullptr, false);
    std::vector<ChatMessage> messages;
    for (const Json& entry : json.is_array() ? json : Json::array({0})) {
      const bool fits = entry.is_object() && entry.contains("role") && entry["role"].is_string() &&
                        entry.contains("content") && entry["content"].is_string();
      if (!fits)
        return say("\"" + path +
                   "\" is not a conversation: expected [{\"role\": ..., \"content\": ...}, ...]");
      messages.push_back({entry["role"].get<std::string>(), entry["content"].get<std::string>()});
    }
    if (!messages.empty() && messages.front().role == "system") {
      conversation_.settings().system = messages.front().content;
      messages.erase(messages.begin());
    }
    conversation_.load(std::move(messages));
    say("loaded " + std::to_string(conversation_.messages().size()) + " messages");
  }

  Engine* engine_;
  Conversation conversation_;
  Style style_;
  bool interactive_;
  bool stats_;
  uint32_t crops_;
  bool failed_ = false;
  GenerateResult last_;
  LineReader lines_;
};

Result<int> run(const ChatArguments& arguments) {
  auto sampling = arguments.sampling.resolve();
  if (!sampling.ok()) return std::move(sampling).error();
  if (!arguments.sampling.seed_option.given()) sampling->seed = std::random_device{}();
  auto policy = arguments.run.rope_policy();
  if (!policy.ok()) return std::move(policy).error();
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const Model& model = (*engine)->model();
  const Place place{model.info().path, {}, {}};
  if (!model.tokenizer())
    return Error{Code::kNotFound, "has no tokenizer, so it cannot chat", place};
  if (!model.chat_template())
    return Error{Code::kNotFound,
                 "has no chat template; use `phidias generate` with a whole prompt", place};
  install_interrupt_handler();
  const bool interactive = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  ChatSession session(**engine,
                      {.system = arguments.system,
                       .sampling = std::move(*sampling),
                       .max_tokens = arguments.max_tokens,
                       .rope_switch = *policy,
                       .obey_markers = arguments.obey_markers},
                      interactive, arguments.stats, arguments.crops);
  return session.run();
}

}  // namespace

std::function<Result<int>()> setup_chat(CommandOptions& command) {
  auto arguments = std::make_shared<ChatArguments>();
  arguments->run.declare(command);
  command.add_option("--system", arguments->system, "The system message");
  command
      .add_option("-n,--max-tokens", arguments->max_tokens,
                  "Tokens of an answer at most; 0: until the context is full")
      .show_default();
  command.add_flag("--obey-markers", arguments->obey_markers,
                   "Markers such as <|end|> in messages act as markers");
  command.add_flag("--stats", arguments->stats, "Say after each answer how long it took");
  ImageArguments::declare_crops(command, arguments->crops);
  // Chats are livelier with some chance; everything else of the options is off.
  arguments->sampling.options.temperature = 0.7;
  arguments->sampling.options.top_p = 0.95;
  arguments->sampling.declare(command);
  command.footer(
      "In the chat, /help lists the commands. Without a terminal each line of standard input is a "
      "message.");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
