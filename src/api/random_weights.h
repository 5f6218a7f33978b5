// Weights of the right sizes and formats with random values, made quickly.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "api/recipes.h"
#include "base/thread_pool.h"
#include "model/spec.h"
#include "model/weights.h"
#include "phidias/status.h"
#include "quant/format.h"
#include "weights/matrix.h"

namespace phidias {

// Encoded blocks of random values, a few hundred of each kind, from which matrices are drawn.
class RandomBlocks {
 public:
  RandomBlocks();
  ~RandomBlocks();
  RandomBlocks(const RandomBlocks&) = delete;
  RandomBlocks& operator=(const RandomBlocks&) = delete;

  struct Pool;
  // For rows of `cols` values.
  const Pool& of(Format format, size_t cols);

 private:
  std::map<std::pair<Format, size_t>, std::unique_ptr<const Pool>> pools_;
};

// The memory of a matrix that the system has not given yet: it does so where fill() writes.
class UnfilledMatrix {
 public:
  // The matrix owns the memory. Errors: kOutOfMemory.
  Result<Matrix> allocate(size_t rows, size_t cols, Format format);
  // Draws its blocks: billions of weights take a second. While the matrix lives; may be called
  // again.
  void fill(uint64_t seed, RandomBlocks& blocks, ParallelFor& threads) const;

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
