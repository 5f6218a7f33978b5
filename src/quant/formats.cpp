#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "quant/bf16.h"
#include "quant/f16.h"
#include "quant/f32.h"
#include "quant/format.h"
#include "quant/q4.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace phidias {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read as they lie in files");

// What a format of single rows does for the functions of tiles.
template <typename F>
struct SingleRows {
  static void decode(const std::byte* tile, size_t, float* dst, size_t values) {
    F::decode(tile, dst, values);
  }
  static void encode(const float* src, size_t, const float* importance, std::byte* tile,
                     size_t values) {
    if constexpr (requires { F::encode(src, tile, values, importance); }) {
      F::encode(src, tile, values, importance);
    } else {
      F::encode(src, tile, values);
    }
  }
  static void copy(const std::byte* from_tile, size_t, std::byte* to_tile, size_t, size_t values) {
    if (values == 0) return;
    std::memcpy(to_tile, from_tile, values / F::kBlockValues * sizeof(typename F::Block));
  }
};

template <typename F>
constexpr FormatRow row(Format format, std::string_view name, uint32_t ggml_type,
                        std::string_view safetensors = {}) {
  constexpr bool kTiles = requires { F::kTileRows; };
  FormatRow result = {};
  result.format = format;
  result.name = name;
  result.block_values = F::kBlockValues;
  result.block_bytes = sizeof(typename F::Block);
  result.ggml_type = ggml_type;
  result.safetensors = safetensors;
  if constexpr (kTiles) {
    result.tile_rows = F::kTileRows;
    result.decode_tile_row = F::decode_row;
    result.encode_tile = F::encode;
    result.copy_tile_row = F::copy_row;
  } else {
    result.tile_rows = 1;
    result.decode_tile_row = SingleRows<F>::decode;
    result.encode_tile = SingleRows<F>::encode;
    result.copy_tile_row = SingleRows<F>::copy;
  }
  return result;
}

// Our own format's number: out of the way of those that ggml gives away one after another.
constexpr uint32_t kGgmlQ4 = 0x50513400;

// In the order of the enumeration. Numbers: enum ggml_type of ggml.h.
constexpr std::array<FormatRow, kFormatCount> kRows = {
    row<F32>(Format::kF32, "F32", 0, "F32"),       //
    row<F16>(Format::kF16, "F16", 1, "F16"),       //
    row<BF16>(Format::kBF16, "BF16", 30, "BF16"),  //
    row<Q8_0>(Format::kQ8_0, "Q8_0", 8),           //
    row<Q4_0>(Format::kQ4_0, "Q4_0", 2),           //
    row<Q4_1>(Format::kQ4_1, "Q4_1", 3),           //
    row<Q5_0>(Format::kQ5_0, "Q5_0", 6),           //
    row<Q5_1>(Format::kQ5_1, "Q5_1", 7),           //
    row<Q4_K>(Format::kQ4_K, "Q4_K", 12),          //
    row<Q5_K>(Format::kQ5_K, "Q5_K", 13),          //
    row<Q6_K>(Format::kQ6_K, "Q6_K", 14),          //
    row<Q4>(Format::kQ4, "Q4", kGgmlQ4),           //
};

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (index_of(kRows[i].format) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

template <typename Matches>
std::optional<Format> find_format(Matches matches) {
  const auto at = std::find_if(kRows.begin(), kRows.end(), matches);
  if (at == kRows.end()) return std::nullopt;
  return at->format;
}

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

const FormatRow& format_row(Format format) { return kRows[index_of(format)]; }

std::span<const FormatRow> format_rows() { return kRows; }

std::optional<Format> format_from_ggml(uint32_t ggml_type) {
  return find_format([&](const FormatRow& row) { return row.ggml_type == ggml_type; });
}

std::optional<Format> format_from_safetensors(std::string_view dtype) {
  if (dtype.empty()) return std::nullopt;
  return find_format([&](const FormatRow& row) { return row.safetensors == dtype; });
}

std::optional<Format> format_from_name(std::string_view name) {
  return find_format([&](const FormatRow& row) {
    return std::equal(name.begin(), name.end(), row.name.begin(), row.name.end(),
                      [](char a, char b) { return upper(a) == upper(b); });
  });
}

}  // namespace phidias
