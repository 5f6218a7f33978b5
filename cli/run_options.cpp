#include "run_options.h"

#include <cstdio>

#include "phidias/hub.h"

namespace phidias::cli {
namespace {

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

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelOption& model) {
  auto path = model.find();
  if (!path.ok()) return std::move(path).error();
  return Tokenizer::load(*path);
}

}  // namespace phidias::cli
