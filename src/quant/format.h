// Number formats: one row each. Everything that depends on a format reads its row; no other code
// names one. To add a format: one file with its block layout, decode and encode, and one row in
// formats.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace phidias {

enum class Format : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ4
};
inline constexpr size_t kFormatCount = 12;

constexpr size_t index_of(Format format) { return static_cast<size_t>(format); }

// A matrix lies in tiles of tile_rows rows, one after another; a tile is a sequence of blocks, each
// of block_values columns of its rows. In most formats a tile is a single row. Where it is more,
// the rows of a block are interleaved, and the last tile of a matrix is filled up with rows of
// zeros.
struct FormatRow {
  Format format;
  std::string_view name;         // as GGUF tools print it: "Q4_K"
  uint32_t block_values;         // columns of one block; a row of a matrix is whole blocks
  uint32_t block_bytes;          // bytes of one block
  uint32_t tile_rows;            // rows of one block
  uint32_t ggml_type;            // number in a GGUF file
  std::string_view safetensors;  // dtype in a safetensors file; empty if it has none

  // Plain reference; `values` (per row) is a multiple of block_values; nothing need be aligned.
  void (*decode_tile_row)(const std::byte* tile, size_t row, float* dst, size_t values);
  // src [rows, values] with rows <= tile_rows. importance [values] weighs the squared error of each
  // column where the format searches for its scales, or is null.
  void (*encode_tile)(const float* src, size_t rows, const float* importance, std::byte* tile,
                      size_t values);
  void (*copy_tile_row)(const std::byte* from_tile, size_t from, std::byte* to_tile, size_t to,
                        size_t values);

  size_t tile_bytes(size_t cols) const { return cols / block_values * block_bytes; }
  size_t matrix_bytes(size_t rows, size_t cols) const {
    return (rows + tile_rows - 1) / tile_rows * tile_bytes(cols);
  }
  // The tile of a matrix that has row `row` in it, at row % tile_rows.
  const std::byte* tile_of(const std::byte* matrix, size_t row, size_t cols) const {
    return matrix + row / tile_rows * tile_bytes(cols);
  }
  void decode_row(const std::byte* matrix, size_t row, float* dst, size_t cols) const {
    decode_tile_row(tile_of(matrix, row, cols), row % tile_rows, dst, cols);
  }
  double bits_per_value() const { return 8.0 * block_bytes / (block_values * tile_rows); }
  // A vector, or a matrix of one row.
  size_t row_bytes(size_t values) const { return tile_bytes(values); }
  void decode(const std::byte* src, float* dst, size_t values) const {
    decode_tile_row(src, 0, dst, values);
  }
  void encode(const float* src, std::byte* dst, size_t values,
              const float* importance = nullptr) const {
    encode_tile(src, 1, importance, dst, values);
  }
};

const FormatRow& format_row(Format format);
std::span<const FormatRow> format_rows();
std::optional<Format> format_from_ggml(uint32_t ggml_type);
std::optional<Format> format_from_safetensors(std::string_view dtype);
// Case-insensitive: "q4_k", "BF16".
std::optional<Format> format_from_name(std::string_view name);

}  // namespace phidias
