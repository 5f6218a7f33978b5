// How well a model predicts a text, and how far one run's predictions are from another's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "phidias/engine.h"
#include "phidias/status.h"

namespace phidias {

struct PerplexityOptions {
  uint32_t window = 512;  // tokens; windows do not overlap, a last partial one is dropped
  RopeSwitch rope_switch = RopeSwitch::kReprefill;
  std::filesystem::path save_log_probabilities;  // log-probabilities [scored, vocab] in f16 as
                                                 // safetensors; empty: none
  std::filesystem::path against;  // such a file of another run on the same tokens; empty: none
  std::function<bool(size_t done, size_t total)> progress;  // windows; false cancels
};

struct Perplexity {
  std::vector<double> windows;  // negative log-likelihood summed over each window's scored tokens
                                // (all but its first)
  uint64_t tokens = 0;          // scored
  double perplexity = 0;        // exp of the mean
  // Kullback-Leibler divergence of this run from the saved one, per scored token, and how often
  // both prefer the same token. Present with `against`.
  std::optional<double> kl_mean;
  std::optional<double> kl_p99;
  std::optional<double> same_best;
};

// Errors: kInvalidArgument (fewer tokens than one window, a window beyond the context), kCorrupt
// (`against` does not fit), kIo, kNonFinite, kCancelled.
Result<Perplexity> perplexity(Engine& engine, std::span<const TokenId> ids,
                              const PerplexityOptions& options = {});

}  // namespace phidias
