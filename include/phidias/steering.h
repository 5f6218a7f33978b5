// Directions in the residual stream: found from contrasts, kept in files, added while a model runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phidias/edits.h"
#include "phidias/engine.h"
#include "phidias/status.h"

namespace phidias {

// One direction [hidden_size] for each layer that has one: of the layer's output.
struct ControlVector {
  std::map<uint32_t, std::vector<float>> directions;
  std::string model_hint;  // the model type
};

// GGUF control vectors as repeng writes them and llama.cpp loads them: architecture
// "controlvector", tensors "direction.<layer>". A direction of layer 0 cannot be kept: llama.cpp
// has no place for one. Errors: kInvalidArgument, kCorrupt, kIo.
Result<ControlVector> load_control_vector(const std::filesystem::path& path);
Status save_control_vector(const std::filesystem::path& path, const ControlVector& vector);

enum class ContrastMethod : uint8_t {
  kMean,     // the mean of the differences
  kPcaDiff,  // their first principal component, turned so that most positives lie ahead
};
struct ContrastPair {
  std::vector<TokenId> positive;
  std::vector<TokenId> negative;
};
// From the streams at the last token of each text, after every layer from 1 on. Errors:
// kInvalidArgument (no pairs; fewer than two for kPcaDiff; pairs that do not differ), those of
// Trace.
Result<ControlVector> contrast(Engine& engine, std::span<const ContrastPair> pairs,
                               ContrastMethod method = ContrastMethod::kPcaDiff);

// The vector, times the coefficient, added to every layer's output that it has a direction for.
Edits steer(const ControlVector& vector, double coefficient, const Positions& at = {},
            bool keep_norm = false);

}  // namespace phidias
