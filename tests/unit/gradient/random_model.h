// Small models with random weights of any number format.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "model/spec.h"
#include "model/weights.h"

namespace phidias::test {

struct RandomModel {
  ModelSpec spec;
  ModelWeights weights;  // owns its memory
};

// Grouped queries, a window of 5, half of each head rotated, LongRoPE from 7 positions on. Widths
// are multiples of `unit`, a multiple of 16.
ModelSpec small_spec(uint32_t unit);

// The same with what Phi-3-small has in place: layer norms, biases, GEGLU with clamped branches,
// block-sparse attention in the first layers, scales of embedding, scores and logits, masked ids.
ModelSpec relative_spec(uint32_t unit);

// The first with experts in place of the feed-forward block, four of which a row passes two.
ModelSpec experts_spec(uint32_t unit);

// Normal weights of variance 1 / cols, encoded in `format`.
Matrix random_matrix(size_t rows, size_t cols, Format format, std::mt19937& random);

// Of such matrices, which keep the stream near 1; norms near 1.
RandomModel random_model(const ModelSpec& spec, Format format, uint32_t seed);

std::vector<int32_t> random_tokens(const ModelSpec& spec, size_t count, uint32_t seed);

}  // namespace phidias::test
