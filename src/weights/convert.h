// Weights in another format than their file's, made at load time.
#pragma once

#include "base/thread_pool.h"
#include "phidias/status.h"
#include "weights/matrix.h"

namespace phidias {

// Rows [first, first + count) of a block. Shared with it, unless they begin inside a tile.
RowBlock slice(const RowBlock& block, size_t first, size_t count, size_t cols);

// A copy of the matrix with every block in `format`, tile by tile: no second copy of the whole
// exists at any time. Blocks that are in `format` already are shared. Errors: kUnsupported if cols
// is not a multiple of the format's block; kOutOfMemory.
Result<Matrix> converted(const Matrix& matrix, Format format, ParallelFor& threads);

}  // namespace phidias
