// A step: rows of any number of sequences, prompts and single tokens alike, packed one after
// another.
#pragma once

#include <cstdint>
#include <span>

#include "model/kv_layout.h"
#include "model/rope.h"

namespace phidias {

class RunTaps;

// Consecutive positions of one sequence. Its keys and values for positions below `position` are in
// the cache.
struct BatchRun {
  std::span<const int32_t> tokens;
  uint32_t position = 0;  // of the first token
  RotaryFactors factors = RotaryFactors::kPlain;
  KvView cache;             // has room up to position + tokens.size()
  RunTaps* taps = nullptr;  // looks into this run; null: nobody does
  // For each token a row [D] that stands in for its embedding, such as a part of an image, or null.
  // Empty: there are none. Where a batch begins above the first layer: what enters that layer.
  std::span<const float* const> given = {};
};

struct Batch {
  std::span<const BatchRun> runs;
  // Rows whose final hidden state is wanted, as indices into the packed rows, ascending.
  std::span<const uint32_t> outputs;
  // The layers that are run. Above the first one all rows are given, and the cache below it is
  // neither read nor written; short of the last one there are no outputs.
  size_t first_layer = 0;
  size_t end_layer = SIZE_MAX;

  bool tapped() const {
    for (const BatchRun& run : runs) {
      if (run.taps != nullptr) return true;
    }
    return false;
  }

  size_t rows() const {
    size_t total = 0;
    for (const BatchRun& run : runs) total += run.tokens.size();
    return total;
  }
};

}  // namespace phidias
