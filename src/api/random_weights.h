// Weights of the right sizes and formats with random values, made quickly.
#pragma once

#include <vector>

#include "api/recipes.h"
#include "base/thread_pool.h"
#include "model/spec.h"
#include "model/weights.h"
#include "phidias/status.h"
#include "quant/format.h"
#include "weights/matrix.h"

namespace phidias {

// The memory of a matrix that the system has not given yet: it does so where fill() writes.
class UnfilledMatrix {
 public:
  // The matrix owns the memory. Errors: kOutOfMemory.
  Result<Matrix> allocate(size_t rows, size_t cols, Format format);
  // Blocks are drawn at random from a few hundred that are encoded from normal values, so that
  // billions of weights take a second. While the matrix lives; may be called again.
  void fill(uint64_t seed, ParallelFor& threads) const;

  const std::byte* data() const { return data_; }
  size_t bytes() const { return format_row(format_).matrix_bytes(rows_, cols_); }

 private:
  size_t rows_ = 0, cols_ = 0;
  Format format_ = Format::kF32;
  std::byte* data_ = nullptr;
};

// Errors: kOutOfMemory with the figures.
Result<Matrix> random_matrix(size_t rows, size_t cols, Format format, uint64_t seed,
                             ParallelFor& threads);

// All matrices of a model; the one at index i is filled with the seed i + 1.
struct UnfilledWeights {
  ModelWeights weights;
  std::vector<UnfilledMatrix> matrices;
};
Result<UnfilledWeights> unfilled_weights(const ModelSpec& spec, const Recipe& recipe);
Result<ModelWeights> random_weights(const ModelSpec& spec, const Recipe& recipe,
                                    ParallelFor& threads);

}  // namespace phidias
