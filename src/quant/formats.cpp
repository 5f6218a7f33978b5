#include <algorithm>
#include <array>
#include <bit>

#include "quant/bf16.h"
#include "quant/f16.h"
#include "quant/f32.h"
#include "quant/format.h"
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

template <typename F>
constexpr FormatRow row(Format format, std::string_view name, uint32_t ggml_type,
                        std::string_view safetensors = {}) {
  return {format,    name,        F::kBlockValues, sizeof(typename F::Block),
          ggml_type, safetensors, &F::decode,      &F::encode};
}

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
