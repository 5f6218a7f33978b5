// Checkpoints written: a Hugging Face folder or a GGUF file to GGUF, in the types they have or in
// others, and back to a folder. Whatever is written appears whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phidias/importance.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// Which tensors get which number format.
struct WeightRecipe {
  std::string_view name;     // "q4_k_m"
  std::string_view summary;  // a line for people
};
// "file" (every tensor as it is), the number formats, and mixtures of them.
std::span<const WeightRecipe> weight_recipes();

struct ConversionProgress {
  std::string_view tensor;  // being written
  uint64_t done = 0;        // bytes of the weights to be written
  uint64_t total = 0;
};

// A text that the model runs before it is quantized. What enters each matrix then decides how it is
// rounded: columns that matter more are kept more precisely, and later columns make up for the
// errors of earlier ones, where they go together.
struct CalibrationText {
  std::vector<TokenId> ids;
  uint32_t window = 512;  // tokens; windows do not overlap, a last partial one is dropped
};

struct ConvertOptions {
  std::string recipe = "file";
  size_t threads = 0;        // 0: the physical cores that this process may use
  std::string model_name{};  // general.name; empty: the file's own, or the folder's name
  // Columns that matter more are written more precisely; in number formats that search for their
  // scales (Q4, Q4_K, Q5_K, Q6_K, ...). Null: all count the same.
  std::shared_ptr<const Importance> importance{};
  // Empty: none. Takes some minutes and gigabytes with a model of billions of weights, and goes
  // before `importance` where it knows a matrix's inputs.
  CalibrationText calibration{};
  std::function<bool(const ConversionProgress&)> progress{};  // false cancels
};

struct ConversionReport {
  uint64_t bytes_before = 0;  // of all weights
  uint64_t bytes_after = 0;
  uint64_t parameters = 0;
  double bits_per_weight = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, uint64_t>> types;  // "Q4_K" -> bytes, in order of first use
  std::vector<std::string> notices;                     // what a user should know
};

// A GGUF file of a folder or of another GGUF file. From a folder: the keys and tensors that
// llama.cpp reads, the tokenizer and the chat template; beside them the folder's small files word
// for word, so that export_folder() gives them back. From a GGUF file: its metadata to the letter.
// Needs the memory of a few rows; the weights stay in mapped memory. Errors: those of Model::load;
// kInvalidArgument (unknown recipe), kUnsupported (a model type that GGUF has no place for),
// kCancelled, kIo, kOutOfMemory.
Result<ConversionReport> write_gguf(const std::filesystem::path& model,
                                    const std::filesystem::path& file,
                                    const ConvertOptions& options = {});

struct ExportOptions {
  std::string type = "bf16";             // "bf16", "f16" or "f32"
  uint64_t shard_bytes = 5'000'000'000;  // the most that one safetensors file holds
  size_t threads = 0;
  std::function<bool(const ConversionProgress&)> progress{};
};

// A folder laid out as the published ones: config.json, weights by the names of the published code
// (fused for phi3), in shards with an index where they are large, tokenizer, generation settings,
// chat template. `folder` must not exist, or be empty. Errors as above; kInvalidArgument for a
// folder that holds something.
Result<ConversionReport> export_folder(const std::filesystem::path& model,
                                       const std::filesystem::path& folder,
                                       const ExportOptions& options = {});

}  // namespace phidias
