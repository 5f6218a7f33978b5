#include "weights/convert.h"

#include <new>

#include "base/memory.h"

namespace phidias {

Result<Matrix> converted(const Matrix& matrix, Format format, ParallelFor& threads) {
  const FormatRow& target = format_row(format);
  if (matrix.cols % target.block_values != 0) {
    return Error{Code::kUnsupported,
                 "rows of " + std::to_string(matrix.cols) + " values cannot be stored as " +
                     std::string(target.name) + ", whose blocks have " +
                     std::to_string(target.block_values) + " values; choose another type",
                 {}};
  }
  Matrix result{.rows = matrix.rows, .cols = matrix.cols, .blocks = {}};
  for (const RowBlock& block : matrix.blocks) {
    if (block.format == format) {
      result.blocks.push_back(block);
      continue;
    }
    const FormatRow& source = format_row(block.format);
    const size_t source_bytes = source.row_bytes(matrix.cols);
    const size_t target_bytes = target.row_bytes(matrix.cols);
    std::shared_ptr<AlignedBuffer<std::byte>> copy;
    AlignedBuffer<float> rows;  // one decoded row per thread
    try {
      rows.ensure(threads.threads() * matrix.cols);
      copy = std::make_shared<AlignedBuffer<std::byte>>(block.rows * target_bytes);
    } catch (const std::bad_alloc&) {
      return Error{Code::kOutOfMemory,
                   "no memory for " + std::to_string(block.rows * target_bytes) +
                       " bytes of converted weights",
                   {}};
    }
    threads.run(block.rows, 1, [&](size_t begin, size_t end, size_t thread) {
      float* values = rows.data() + thread * matrix.cols;
      for (size_t row = begin; row < end; ++row) {
        source.decode(block.data + row * source_bytes, values, matrix.cols);
        target.encode(values, copy->data() + row * target_bytes, matrix.cols);
      }
    });
    const std::byte* data = copy->data();
    result.blocks.push_back({format, data, block.rows, std::move(copy)});
  }
  return result;
}

}  // namespace phidias
