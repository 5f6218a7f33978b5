// Arithmetic on sizes that a file claims: every step says whether it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "quant/format.h"

namespace phidias {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Values of a tensor of this shape; a shape without dimensions has one.
inline std::optional<uint64_t> checked_product(std::span<const uint64_t> shape) {
  uint64_t product = 1;
  for (const uint64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  return product;
}

// Bytes of `values` values in rows of `row_values`, which are whole blocks.
inline std::optional<uint64_t> checked_matrix_bytes(const FormatRow& format, uint64_t values,
                                                    uint64_t row_values) {
  const uint64_t rows = row_values > 0 ? values / row_values : 0;
  const uint64_t tiles = rows / format.tile_rows + (rows % format.tile_rows != 0 ? 1 : 0);
  const auto blocks = checked_multiply(tiles, row_values / format.block_values);
  return blocks ? checked_multiply(*blocks, format.block_bytes) : std::nullopt;
}

}  // namespace phidias
