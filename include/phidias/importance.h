// How much each input of each matrix matters: the mean of its square over a text. Quantization that
// knows it spends its precision where the products are large.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "phidias/engine.h"
#include "phidias/status.h"

namespace phidias {

struct Importance {
  std::map<std::string, std::vector<float>>
      mean_squares;     // by tensor name in a GGUF file: [columns]
  uint64_t tokens = 0;  // that the means are taken over
};

struct ImportanceOptions {
  uint32_t window = 512;  // tokens; windows do not overlap, a last partial one is dropped
  std::function<bool(size_t done, size_t total)> progress{};  // windows; false cancels
};

// Runs the text and looks at what enters every matrix. Experts' down projections are left out.
// Errors: kInvalidArgument (fewer tokens than one window), kUnsupported (a model type that GGUF has
// no names for), kCancelled; those of Engine::step.
Result<Importance> collect_importance(Engine& engine, std::span<const TokenId> ids,
                                      const ImportanceOptions& options = {});

// llama.cpp's importance matrices: a GGUF file with sums of squares and counts. Errors: kIo;
// kCorrupt for a file without such tensors or with values that are no squares.
Status save_importance(const Importance& importance, const std::filesystem::path& file);
Result<Importance> load_importance(const std::filesystem::path& file);

}  // namespace phidias
