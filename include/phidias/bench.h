// How fast a model runs here, held against what the machine can do in the same minute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/model.h"
#include "phidias/options.h"
#include "phidias/status.h"

namespace phidias {

// Published shapes of which models with random weights can be made: speed does not depend on the
// values.
std::vector<std::string_view> model_shapes();

struct RandomModelOptions {
  std::string shape = "phi-3-mini";
  std::string weights = "q4";  // a recipe (phidias/convert.h)
  uint32_t layers = 0;         // 0: all of the shape's
  size_t threads = 0;
};
// Without a tokenizer. Errors: kInvalidArgument (an unknown shape or recipe, with the names),
// kOutOfMemory with the figures where the weights do not fit.
Result<std::shared_ptr<const Model>> random_model(const RandomModelOptions& options);
// The weights of such a model to a GGUF file, for runs of other programs on the same ones. Needs
// the memory of one layer. Errors: those of random_model(); kUnsupported for a shape that GGUF has
// no layout for; kIo.
Status save_random_model(const RandomModelOptions& options, const std::filesystem::path& file);

// The machine's own limits, by loops that do nothing else.
struct MachineReading {
  double read_bytes_s = 0;  // the best of several ways of reading memory
  std::string read_pattern;
  double integer_ops_s = 0;  // 8-bit multiply-adds, each counted twice
  std::string integer_instructions;
  double float_ops_s = 0;  // 32-bit multiply-adds
  std::string float_instructions;
};
// Takes about half a second and 512 MB of memory for that time.
MachineReading read_machine(size_t threads, const std::string& isa = {});

struct BenchOptions {
  EngineOptions engine;
  uint32_t prompt_tokens = 512;  // random ids
  uint32_t new_tokens = 128;
  std::vector<uint32_t> depths = {0};   // positions of context; 0: after the prompt
  std::vector<uint32_t> batches = {1};  // sequences that decode together, with prompts of their own
  // Tiles that an image is cut into, the whole image not counted, for models that see images.
  std::vector<uint32_t> image_tiles = {1};
  uint32_t repetitions = 5;
  bool compare_with_exact = true;
  uint64_t seed = 1;
  std::function<bool(std::string_view what, uint32_t done, uint32_t total)> progress;
};

// One figure. `limit` is what the machine allows by its best readings around it, in the same unit;
// 0 where none is known.
struct BenchRow {
  std::string metric;
  uint32_t prompt = 0, new_tokens = 0, depth = 0, batch = 1;
  double median = 0, min = 0, max = 0;
  double limit = 0;
  // How much of what the machine allows was used, 0 to 1.
  double share_of_limit = 0;
};

struct BenchReport {
  std::string cpu, isa, kv;
  size_t threads = 0;
  Numerics numerics = Numerics::kFast;
  MachineReading before, after;
  uint64_t weight_bytes = 0;
  uint64_t bytes_per_token = 0;  // of weights
  uint64_t cache_bytes_per_position = 0;
  std::vector<BenchRow> rows;
};

// How many positions of the prompt are compared with exact numerics, which are far slower.
inline constexpr uint32_t kComparedPositions = 16;

// Metrics: first_token_s, prefill_tok_s, decode_tok_s, batch_decode_tok_s; image_s; peak_rss_bytes
// of each setting, while it ran; max_abs_diff (logits of the prompt's first kComparedPositions
// positions, from exact numerics). The model is run as generation runs it: each token is read by
// the host. Decoding at a depth and of several sequences begins at positions that hold no real keys
// and values, since speed does not depend on them. Errors: those of the engine; kCancelled.
Result<BenchReport> bench(const std::shared_ptr<const Model>& model, const BenchOptions& options);

// Kernels alone: every number format multiplied by 1, 16 and 512 rows, attention over 2048
// positions of every cache type.
struct KernelBenchRow {
  std::string kernel;  // "decode", "rows_16", "prefill", "attention"
  std::string format;
  double bytes_s = 0, ops_s = 0;
  double share_of_bandwidth = 0, share_of_peak = 0;
};
struct KernelBenchReport {
  std::string cpu, isa;
  size_t threads = 0;
  MachineReading before, after;
  std::vector<KernelBenchRow> rows;
};
Result<KernelBenchReport> bench_kernels(
    const EngineOptions& options,
    const std::function<bool(std::string_view what, uint32_t done, uint32_t total)>& progress = {});

}  // namespace phidias
