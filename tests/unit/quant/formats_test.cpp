#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "quant/fitting.h"
#include "quant/format.h"

namespace phidias {
namespace {

TEST(Formats, EveryRowIsFoundByEachOfItsNames) {
  ASSERT_EQ(format_rows().size(), kFormatCount);
  for (const FormatRow& row : format_rows()) {
    EXPECT_EQ(&format_row(row.format), &row);
    EXPECT_EQ(format_from_ggml(row.ggml_type), row.format);
    EXPECT_EQ(format_from_name(row.name), row.format);
    if (!row.safetensors.empty()) {
      EXPECT_EQ(format_from_safetensors(row.safetensors), row.format);
    }
  }
}

TEST(Formats, RowsThatAreNoWholeBlocksTakeTheFewestBitsAboveThatFit) {
  EXPECT_EQ(fitting(Format::kQ4, 128), Format::kQ4);
  EXPECT_EQ(fitting(Format::kQ4, 96), Format::kQ4_0);
  EXPECT_EQ(fitting(Format::kQ4_K, 256), Format::kQ4_K);
  EXPECT_EQ(fitting(Format::kQ4_K, 96), Format::kQ4_1);
  EXPECT_EQ(fitting(Format::kQ6_K, 96), Format::kQ8_0);
  EXPECT_EQ(format_row(fitting(Format::kQ8_0, 33)).block_values, 1U);
}

TEST(Formats, NamesIgnoreCase) {
  EXPECT_EQ(format_from_name("q4_k"), Format::kQ4_K);
  EXPECT_EQ(format_from_name("bf16"), Format::kBF16);
  EXPECT_EQ(format_from_name("Q4_K_M"), std::nullopt);
  EXPECT_EQ(format_from_name(""), std::nullopt);
}

TEST(Formats, UnknownNumbersAndDtypesAreNotFound) {
  EXPECT_EQ(format_from_ggml(10), std::nullopt);
  EXPECT_EQ(format_from_ggml(0xFFFFFFFFU), std::nullopt);
  EXPECT_EQ(format_from_safetensors("I64"), std::nullopt);
  EXPECT_EQ(format_from_safetensors(""), std::nullopt);
}

TEST(Formats, RowBytesAreWholeBlocks) {
  EXPECT_EQ(format_row(Format::kQ4_0).row_bytes(3072), 3072U / 32 * 18);
  EXPECT_EQ(format_row(Format::kQ6_K).row_bytes(512), 420U);
  EXPECT_EQ(format_row(Format::kF32).row_bytes(0), 0U);
}

class EveryFormat : public ::testing::TestWithParam<Format> {
 protected:
  const FormatRow& row() const { return format_row(GetParam()); }
  std::vector<float> through(const std::vector<float>& values) const {
    std::vector<std::byte> bytes(row().row_bytes(values.size()));
    std::vector<float> decoded(values.size());
    row().encode(values.data(), bytes.data(), values.size());
    row().decode(bytes.data(), decoded.data(), values.size());
    return decoded;
  }
};

TEST_P(EveryFormat, ZeroStaysZero) {
  for (const float value : through(std::vector<float>(512, 0.0F))) EXPECT_EQ(value, 0.0F);
}

TEST_P(EveryFormat, NothingInGivesNothingOut) {
  row().encode(nullptr, nullptr, 0);
  row().decode(nullptr, nullptr, 0);
}

TEST_P(EveryFormat, DecodesFromAnyAddress) {
  std::vector<float> values(512);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i % 7);
  }
  const size_t size = row().row_bytes(values.size());
  std::vector<std::byte> aligned(size);
  std::vector<std::byte> shifted(size + 1);
  row().encode(values.data(), aligned.data(), values.size());
  row().encode(values.data(), shifted.data() + 1, values.size());
  EXPECT_EQ(std::memcmp(aligned.data(), shifted.data() + 1, size), 0);
  std::vector<float> from_aligned(values.size());
  std::vector<float> from_shifted(values.size());
  row().decode(aligned.data(), from_aligned.data(), values.size());
  row().decode(shifted.data() + 1, from_shifted.data(), values.size());
  EXPECT_EQ(from_aligned, from_shifted);
}

TEST_P(EveryFormat, BlocksStandAlone) {
  std::vector<float> values(512);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::cos(static_cast<float>(i * i));
  std::vector<std::byte> together(row().row_bytes(512));
  std::vector<std::byte> apart(row().row_bytes(512));
  row().encode(values.data(), together.data(), 512);
  row().encode(values.data(), apart.data(), 256);
  row().encode(values.data() + 256, apart.data() + row().row_bytes(256), 256);
  EXPECT_EQ(together, apart);
}

// What a NaN or an infinity turns into is not promised; that everything else stays defined is, and
// the sanitizers watch.
TEST_P(EveryFormat, StrangeValuesDoNoHarm) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float strange :
       {kInfinity, -kInfinity, kNan, 3e38F, -3e38F, 1e-45F, -1e-45F, 1e-39F}) {
    std::vector<float> values(256, 0.25F);
    values[17] = strange;
    through(values);
    through(std::vector<float>(256, strange));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat,
                         ::testing::Values(Format::kF32, Format::kF16, Format::kBF16, Format::kQ8_0,
                                           Format::kQ4_0, Format::kQ4_1, Format::kQ5_0,
                                           Format::kQ5_1, Format::kQ4_K, Format::kQ5_K,
                                           Format::kQ6_K, Format::kQ4),
                         [](const auto& test) { return std::string(format_row(test.param).name); });

}  // namespace
}  // namespace phidias
