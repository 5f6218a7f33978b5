// Options and steps that several commands share.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command_options.h"
#include "phidias/engine.h"
#include "phidias/model.h"
#include "phidias/prompt.h"
#include "phidias/sampling.h"

namespace phidias::cli {

// -m: a folder, a file, or a name in the hub cache.
struct ModelOption {
  std::string name;

  void declare(CommandOptions& command, bool required = true);
  // Errors: kNotFound, with what was looked for where.
  Result<std::filesystem::path> find() const;
};

// -t: how many threads; 0, where it is not given, for the physical cores.
void declare_threads(CommandOptions& command, size_t& threads);

// --generate and --chunk: how a given text is run, and for how long beyond its end.
void declare_steps(CommandOptions& command, uint32_t& generate, uint32_t& chunk);

// -m and everything that shapes a run.
struct RunOptions {
  ModelOption model;
  size_t threads = 0;
  uint32_t context = 0;
  std::string numerics = "fast";
  std::string weights = "file";
  std::string kv;
  std::string rope_switch = "reprefill";
  std::string isa;
  uint64_t cache_budget_mib = 0;
  bool verbose = false;

  void declare(CommandOptions& command);
  Result<RopeSwitch> rope_policy() const { return rope_switch_from_name(rope_switch); }
  // Loads the model and makes an engine; with --verbose says what memory it will take before it
  // takes it.
  Result<std::unique_ptr<Engine>> start() const;
};

// --ids, --ids-file, --text, --file: exactly one of them.
struct InputOptions {
  std::string ids;
  std::string ids_file;
  std::string text;
  std::string file;
  Option text_option;
  Option ids_option;
  Option ids_file_option;
  Option file_option;

  // `with_text` false: ids alone.
  void declare(CommandOptions& command, bool with_text = true);
  bool given() const {
    return !ids_file.empty() || !file.empty() || ids_option.given() || text_option.given();
  }
  bool is_text() const { return !file.empty() || text_option.given(); }
  Result<std::string> read_text() const;
  // Ids as given, or the text's by the model's tokenizer, with images where it has tags.
  Result<std::vector<TokenId>> read_ids(const Tokenizer* tokenizer,
                                        const std::vector<ImageHandle>& images = {}) const;
};

struct SamplingArguments {
  SamplingOptions options;
  std::vector<std::string> bias;  // "id=value"
  Option seed_option;

  void declare(CommandOptions& command);
  Result<SamplingOptions> resolve() const;
};

// "1,2,3" or white space between. Errors: kInvalidArgument naming the first thing that is no id.
Result<std::vector<TokenId>> parse_ids(const std::string& text, const std::string& place);

// The whole of standard input or of a file.
Result<std::string> read_input(const std::string& path);

// Standard output is written and flushed; false when nobody reads it any more.
bool print(std::string_view text);

// Says which messages the template leaves out.
void warn_untraced(const std::vector<ChatMessage>& messages, const ChatPrompt& prompt);

// The tokenizer of a path that need not have weights.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelOption& model);

// Ctrl-C: set by the handler, cleared by whoever acts on it. install() is called once, by commands
// that can stop half way.
void install_interrupt_handler();
bool interrupted();
void clear_interrupt();

}  // namespace phidias::cli
