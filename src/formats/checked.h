// Arithmetic on sizes that a file claims: every step says whether it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

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

}  // namespace phidias
