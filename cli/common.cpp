#include "common.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "phidias/hub.h"

namespace phidias::cli {
namespace {

std::atomic<bool> interrupt_flag{false};

void on_interrupt(int) {
  // A second Ctrl-C before the first was acted on ends the program.
  if (interrupt_flag.exchange(true)) std::_Exit(130);
}

std::string mebibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

void ModelOption::declare(CommandOptions& command, bool required) {
  const Option option =
      command
          .add_option("-m,--model", name,
                      "A Hugging Face folder, a .gguf file, or a model in the hub cache "
                      "(owner/name, see `phidias pull`)")
          .environment("PHIDIAS_MODEL");
  if (required) option.required();
}

Result<std::filesystem::path> ModelOption::find() const {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) return std::filesystem::path(name);
  const auto reference = HubReference::parse(name);
  if (!reference.ok() || name.ends_with(".gguf"))
    return Error{Code::kNotFound, "there is no such file or folder", {name, {}, {}}};
  auto cached = find_cached_model(*reference, HubOptions::from_environment().cache);
  if (cached.ok()) return std::move(*cached);
  Error error = std::move(cached).error();
  error.message = "there is no such file or folder, and in the hub cache (" + error.place.file +
                  "): " + error.message;
  error.place = {name, {}, {}};
  return error;
}

void declare_steps(CommandOptions& command, uint32_t& generate, uint32_t& chunk) {
  command.add_option("--generate", generate, "Then so many greedy tokens, end tokens not obeyed");
  command.add_option("--chunk", chunk,
                     "Feed the prompt in chunks of so many tokens; changes no bit of the output");
}

void declare_threads(CommandOptions& command, size_t& threads) {
  command
      .add_option("-t,--threads", threads,
                  "Threads; default: the physical cores that this process may use")
      .in_range(1, 1024);
}

void RunOptions::declare(CommandOptions& command) {
  model.declare(command);
  declare_threads(command, threads);
  command
      .add_option("--ctx", context,
                  "Context: positions of the longest sequence; default: what the model states")
      .positive();
  command
      .add_option(
          "--numerics", numerics,
          "exact: the reference's mathematics in f32; fast: whatever is quickest within the "
          "stated distance")
      .one_of({"exact", "fast"})
      .show_default();
  command
      .add_option("--weights", weights,
                  "Type of the weights in memory: file (as they lie), f32, bf16, q8_0, q4_0, ...")
      .show_default();
  command.add_option("--kv", kv,
                     "Type of the key-value cache: f32, f16, bf16, q8; default: f16, or f32 with "
                     "--numerics exact");
  command
      .add_option("--rope-switch", rope_switch,
                  "LongRoPE models, when a text outgrows the original context: reprefill, keep, "
                  "short, long")
      .one_of({"reprefill", "keep", "short", "long"})
      .show_default();
  command.add_option("--isa", isa,
                     "Kernel table to use; default: the best of this CPU (see `phidias version`)");
  command
      .add_option("--cache-budget", cache_budget_mib,
                  "MiB that the key-value cache may take; default: the memory that is free")
      .in_range(1U, 1U << 30);
  command.add_flag("-v,--verbose", verbose, "Say what is loaded and what memory it takes");
}

Result<std::unique_ptr<Engine>> RunOptions::start() const {
  auto path = model.find();
  if (!path.ok()) return std::move(path).error();
  auto loaded = Model::load(*path, {.weights = weights, .threads = threads});
  if (!loaded.ok()) return std::move(loaded).error();
  auto mode = numerics_from_name(numerics);
  if (!mode.ok()) return std::move(mode).error();
  EngineOptions options;
  options.threads = threads;
  options.numerics = *mode;
  options.kv = kv;
  options.context = context;
  options.cache_budget = cache_budget_mib << 20;
  options.isa = isa;
  auto engine = Engine::create(*loaded, options);
  if (!engine.ok()) return engine;
  for (const std::string& notice : (*loaded)->info().notices)
    std::fprintf(stderr, "note: %s\n", notice.c_str());
  if (verbose) {
    const MemoryPlan memory = (*engine)->memory();
    const EngineOptions& used = (*engine)->options();
    std::fprintf(stderr, "model: %s, %s; threads: %zu; kernels: %s; numerics: %s\n",
                 (*loaded)->info().type.c_str(), path->string().c_str(), used.threads,
                 used.isa.c_str(), std::string(name_of(used.numerics)).c_str());
    std::fprintf(stderr,
                 "memory: weights %s, cache %llu bytes a position (%s at the context of %u, %s at "
                 "most), step buffers %s\n",
                 mebibytes(memory.weights).c_str(),
                 static_cast<unsigned long long>(memory.cache_per_position),
                 mebibytes(memory.cache_at_context).c_str(), used.context,
                 mebibytes(memory.cache_budget).c_str(), mebibytes(memory.step_buffers).c_str());
    if (memory.largest_context < used.context) {
      std::fprintf(
          stderr,
          "memory: the whole context does not fit; one sequence can have %u positions (--ctx %u)\n",
          memory.largest_context, memory.largest_context);
    }
  }
  return engine;
}

void InputOptions::declare(CommandOptions& command, bool with_text) {
  CommandOptions group = command.add_group("input", "What to read: exactly one of these");
  ids_option = group.add_option("--ids", ids, "Token ids, separated by commas");
  ids_file_option = group.add_option("--ids-file", ids_file,
                                     "A file of token ids, separated by commas or white space");
  if (with_text) {
    text_option = group.add_option("--text", text, "Text");
    file_option = group.add_option("--file", file, "A file of text; - for standard input");
  }
  group.require(0, 1);
}

Result<std::string> InputOptions::read_text() const {
  if (!file.empty()) return read_input(file);
  return text;
}

Result<std::vector<TokenId>> InputOptions::read_ids(const Tokenizer* tokenizer,
                                                    const std::vector<ImageHandle>& images) const {
  if (!ids_file.empty()) {
    auto content = read_input(ids_file);
    if (!content.ok()) return std::move(content).error();
    return parse_ids(*content, ids_file);
  }
  if (is_text()) {
    if (tokenizer == nullptr)
      return Error{
          Code::kNotFound, "the checkpoint has no tokenizer to encode text with; give --ids", {}};
    auto content = read_text();
    if (!content.ok()) return std::move(content).error();
    return encode_with_images(*tokenizer, *content, images);
  }
  if (!ids_option.given()) {
    const char* ways =
        !text_option.declared() ? "--ids or --ids-file" : "--text, --file, --ids or --ids-file";
    return Error{Code::kInvalidArgument, std::string("there is no input; give ") + ways, {}};
  }
  return parse_ids(ids, "--ids");
}

void SamplingArguments::declare(CommandOptions& command) {
  CommandOptions group = command.add_group("sampling", "How the next token is chosen");
  group.add_option("--temperature,--temp", options.temperature, "0: always the likeliest token")
      .show_default();
  group.add_option("--top-k", options.top_k, "Keep the k likeliest; 0: off").show_default();
  group.add_option("--top-p", options.top_p, "Keep the likeliest with this mass together; 1: off")
      .show_default();
  group
      .add_option("--min-p", options.min_p,
                  "Keep what has this share of the likeliest's probability; 0: off")
      .show_default();
  group
      .add_option("--typical-p", options.typical_p,
                  "Keep this mass of the most typical tokens; 1: off")
      .show_default();
  group
      .add_option("--repetition-penalty", options.repetition_penalty,
                  "Above 1: tokens seen in prompt or answer become less likely")
      .show_default();
  group
      .add_option("--repetition-last", options.repetition_last,
                  "Look at the last so many tokens only; 0: all")
      .show_default();
  group
      .add_option("--presence-penalty", options.presence_penalty,
                  "Taken from the logit of a token that the answer holds")
      .show_default();
  group
      .add_option("--frequency-penalty", options.frequency_penalty, "The same, once per occurrence")
      .show_default();
  group
      .add_option("--logit-bias", bias,
                  "ID=VALUE, added to that token's logit; -inf bans it. Repeatable")
      .one_at_a_time();
  seed_option = group.add_option("--seed", options.seed, "Same seed, same draws").show_default();
}

Result<SamplingOptions> SamplingArguments::resolve() const {
  SamplingOptions resolved = options;
  for (const std::string& entry : bias) {
    const size_t equals = entry.find('=');
    char* end = nullptr;
    LogitBias parsed;
    const auto read =
        std::from_chars(entry.data(), entry.data() + std::min(equals, entry.size()), parsed.id);
    if (equals != std::string::npos) parsed.bias = std::strtod(entry.c_str() + equals + 1, &end);
    if (equals == std::string::npos || read.ec != std::errc() ||
        read.ptr != entry.data() + equals || end == entry.c_str() + equals + 1 || *end != '\0') {
      return Error{
          Code::kInvalidArgument, "\"" + entry + "\" is not ID=VALUE", {{}, {}, "--logit-bias"}};
    }
    resolved.logit_bias.push_back(parsed);
  }
  const Status valid = resolved.validate();
  if (!valid.ok()) return valid.error();
  return resolved;
}

Result<std::vector<TokenId>> parse_ids(const std::string& text, const std::string& place) {
  std::vector<TokenId> ids;
  size_t at = 0;
  while (true) {
    at = text.find_first_not_of(", \t\r\n", at);
    if (at == std::string::npos) return ids;
    size_t end = text.find_first_of(", \t\r\n", at);
    if (end == std::string::npos) end = text.size();
    TokenId id = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + end, id);
    if (read.ec != std::errc() || read.ptr != text.data() + end) {
      return Error{Code::kInvalidArgument,
                   "\"" + text.substr(at, std::min<size_t>(end - at, 40)) + "\" is not a token id",
                   {{}, {}, place}};
    }
    ids.push_back(id);
    at = end;
  }
}

Result<std::string> read_input(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored)) {
    return Error{Code::kNotFound,
                 std::string("cannot be read: ") + (file ? "is a folder" : std::strerror(errno)),
                 {path, {}, {}}};
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool print(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

void warn_untraced(const std::vector<ChatMessage>& messages, const ChatPrompt& prompt) {
  for (const size_t index : prompt.untraced) {
    std::fprintf(
        stderr,
        "warning: the chat template leaves out message %zu (%s); the model does not see it\n",
        index + 1, messages[index].role.c_str());
  }
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelOption& model) {
  auto path = model.find();
  if (!path.ok()) return std::move(path).error();
  return Tokenizer::load(*path);
}

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
}
bool interrupted() { return interrupt_flag.load(); }
void clear_interrupt() { interrupt_flag.store(false); }

}  // namespace phidias::cli
