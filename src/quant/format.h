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
  kQ6_K
};
inline constexpr size_t kFormatCount = 11;

constexpr size_t index_of(Format format) { return static_cast<size_t>(format); }

struct FormatRow {
  Format format;
  std::string_view name;         // as GGUF tools print it: "Q4_K"
  uint32_t block_values;         // values of one block; a row of a matrix is whole blocks
  uint32_t block_bytes;          // bytes of one block
  uint32_t ggml_type;            // number in a GGUF file
  std::string_view safetensors;  // dtype in a safetensors file; empty if it has none
  // Plain reference: `values` is a multiple of block_values; src need not be aligned.
  void (*decode)(const std::byte* src, float* dst, size_t values);
  void (*encode)(const float* src, std::byte* dst, size_t values);

  size_t row_bytes(size_t values) const { return values / block_values * block_bytes; }
};

const FormatRow& format_row(Format format);
std::span<const FormatRow> format_rows();
std::optional<Format> format_from_ggml(uint32_t ggml_type);
std::optional<Format> format_from_safetensors(std::string_view dtype);
// Case-insensitive: "q4_k", "BF16".
std::optional<Format> format_from_name(std::string_view name);

}  // namespace phidias
