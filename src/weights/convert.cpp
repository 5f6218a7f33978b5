#include "weights/convert.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/memory.h"

namespace phidias {

RowBlock slice(const RowBlock& block, size_t first, size_t count, size_t cols) {
  const FormatRow& format = format_row(block.format);
  if (first % format.tile_rows == 0) {
    return {block.format, format.tile_of(block.data, first, cols), count, block.owner};
  }
  const size_t bytes = format.matrix_bytes(count, cols);
  auto copy = std::make_shared<AlignedBuffer<std::byte>>(bytes);
  std::memset(copy->data(), 0, bytes);
  for (size_t row = 0; row < count; ++row) {
    const size_t source = first + row;
    format.copy_tile_row(format.tile_of(block.data, source, cols), source % format.tile_rows,
                         copy->data() + row / format.tile_rows * format.tile_bytes(cols),
                         row % format.tile_rows, cols);
  }
  const std::byte* data = copy->data();
  return {block.format, data, count, std::move(copy)};
}

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
    const size_t tile_rows = target.tile_rows;
    const size_t bytes = target.matrix_bytes(block.rows, matrix.cols);
    std::shared_ptr<AlignedBuffer<std::byte>> copy;
    AlignedBuffer<float> rows;  // decoded rows of one tile per thread
    try {
      rows.ensure(threads.threads() * tile_rows * matrix.cols);
      copy = std::make_shared<AlignedBuffer<std::byte>>(bytes);
    } catch (const std::bad_alloc&) {
      return Error{Code::kOutOfMemory,
                   "no memory for " + std::to_string(bytes) + " bytes of converted weights",
                   {}};
    }
    threads.run(block.rows, tile_rows, [&](size_t begin, size_t end, size_t thread) {
      float* values = rows.data() + thread * tile_rows * matrix.cols;
      for (size_t first = begin; first < end; first += tile_rows) {
        const size_t count = std::min(tile_rows, end - first);
        for (size_t i = 0; i < count; ++i) {
          source.decode_row(block.data, first + i, values + i * matrix.cols, matrix.cols);
        }
        std::byte* tile = copy->data() + first / tile_rows * target.tile_bytes(matrix.cols);
        target.encode_tile(values, count, nullptr, tile, matrix.cols);
      }
    });
    const std::byte* data = copy->data();
    result.blocks.push_back({format, data, block.rows, std::move(copy)});
  }
  return result;
}

}  // namespace phidias
