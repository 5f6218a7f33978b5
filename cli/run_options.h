// Which model a command loads, and how it runs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "command_options.h"
#include "phidias/engine.h"
#include "phidias/model.h"

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

// The tokenizer of a path that need not have weights.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelOption& model);

}  // namespace phidias::cli
