// Weights of the right sizes and formats with random values, made quickly.
#pragma once

#include "api/recipes.h"
#include "base/thread_pool.h"
#include "model/spec.h"
#include "model/weights.h"
#include "phidias/status.h"

namespace phidias {

// Blocks are drawn at random from a few hundred that are encoded from normal values, so that
// billions of weights take a second. Errors: kOutOfMemory with the figures.
Result<Matrix> random_matrix(size_t rows, size_t cols, Format format, uint64_t seed,
                             ParallelFor& threads);
Result<ModelWeights> random_weights(const ModelSpec& spec, const Recipe& recipe,
                                    ParallelFor& threads);

}  // namespace phidias
