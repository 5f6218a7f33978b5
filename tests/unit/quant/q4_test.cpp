// Q4, whose rows lie sixteen at a time.
#include "quant/q4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "quant/format.h"

namespace phidias {
namespace {

const FormatRow& q4() { return format_row(Format::kQ4); }

std::vector<float> gaussian(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<std::byte> encoded(const FormatRow& format, const std::vector<float>& values,
                               size_t rows, size_t cols, const float* importance = nullptr) {
  std::vector<std::byte> bytes(format.matrix_bytes(rows, cols));
  for (size_t row = 0; row < rows; row += format.tile_rows) {
    format.encode_tile(values.data() + row * cols, std::min<size_t>(format.tile_rows, rows - row),
                       importance, bytes.data() + row / format.tile_rows * format.tile_bytes(cols),
                       cols);
  }
  return bytes;
}

std::vector<float> through(const FormatRow& format, const std::vector<float>& values, size_t rows,
                           size_t cols, const float* importance = nullptr) {
  const std::vector<std::byte> bytes = encoded(format, values, rows, cols, importance);
  std::vector<float> decoded(values.size());
  for (size_t row = 0; row < rows; ++row) {
    format.decode_row(bytes.data(), row, decoded.data() + row * cols, cols);
  }
  return decoded;
}

double error_of(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0, size = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(decoded[i]) - values[i], 2);
    size += std::pow(static_cast<double>(values[i]), 2);
  }
  return std::sqrt(error / size);
}

TEST(Q4, TakesFewerBytesThanQ4_0AndErrsNoMore) {
  constexpr size_t kRows = 64, kCols = 2048;
  const std::vector<float> values = gaussian(kRows * kCols, 1);
  const double error = error_of(values, through(q4(), values, kRows, kCols));
  const double other = error_of(values, through(format_row(Format::kQ4_0), values, kRows, kCols));
  RecordProperty("q4", std::to_string(error));
  RecordProperty("q4_0", std::to_string(other));
  EXPECT_LT(q4().bits_per_value(), 4.2);
  EXPECT_LT(error, other);
  EXPECT_LT(error, 0.0855);
}

TEST(Q4, ARowDecodesToTheSameWhateverRowsLieBeside) {
  constexpr size_t kCols = 192;
  const std::vector<float> values = gaussian(16 * kCols, 2);
  const std::vector<float> together = through(q4(), values, 16, kCols);
  for (size_t row = 0; row < 16; ++row) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(row * kCols);
    const std::vector<float> one(begin, begin + kCols);
    const std::vector<float> alone = through(q4(), one, 1, kCols);
    EXPECT_EQ(std::memcmp(alone.data(), together.data() + row * kCols, kCols * sizeof(float)), 0);
  }
}

TEST(Q4, RowsThatFillUpATileAreZero) {
  constexpr size_t kCols = 128;
  const std::vector<std::byte> bytes = encoded(q4(), gaussian(3 * kCols, 3), 3, kCols);
  ASSERT_EQ(bytes.size(), q4().tile_bytes(kCols));
  std::vector<float> decoded(kCols, 1.0F);
  for (size_t row = 3; row < 16; ++row) {
    q4().decode_row(bytes.data(), row, decoded.data(), kCols);
    for (const float value : decoded) EXPECT_EQ(value, 0.0F);
  }
}

TEST(Q4, CopiedRowsDecodeToTheSameValues) {
  constexpr size_t kCols = 192;
  const std::vector<float> values = gaussian(32 * kCols, 4);
  const std::vector<std::byte> from = encoded(q4(), values, 32, kCols);
  std::vector<std::byte> to(q4().matrix_bytes(20, kCols));
  std::vector<float> want(kCols), got(kCols);
  for (size_t row = 0; row < 20; ++row) {
    const size_t source = (row * 7 + 3) % 32;
    q4().copy_tile_row(q4().tile_of(from.data(), source, kCols), source % 16,
                       to.data() + row / 16 * q4().tile_bytes(kCols), row % 16, kCols);
  }
  for (size_t row = 0; row < 20; ++row) {
    q4().decode_row(from.data(), (row * 7 + 3) % 32, want.data(), kCols);
    q4().decode_row(to.data(), row, got.data(), kCols);
    EXPECT_EQ(got, want) << row;
  }
}

TEST(Q4, ScalesOfAllMagnitudesServe) {
  constexpr size_t kCols = 1024;
  const std::vector<float> values = gaussian(16 * kCols, 5);
  for (const float factor : {1e-4F, 1e-2F, 1e2F, 1e4F}) {
    std::vector<float> scaled(values);
    for (float& value : scaled) value *= factor;
    EXPECT_LT(error_of(scaled, through(q4(), scaled, 16, kCols)), 0.09);
  }
}

TEST(Q4, GroupsOfOneSignUseAllLevels) {
  constexpr size_t kCols = 1024;
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> values = gaussian(16 * kCols, 6);
    for (float& value : values) value = sign * std::fabs(value);
    EXPECT_LT(error_of(values, through(q4(), values, 16, kCols)), 0.06);
  }
}

TEST(Q4, WhatMattersMoreErrsLess) {
  constexpr size_t kRows = 16, kCols = 2048;
  const std::vector<float> values = gaussian(kRows * kCols, 7);
  std::vector<float> importance(kCols, 1.0F);
  for (size_t i = 0; i < kCols; i += 8) importance[i] = 100.0F;
  const auto error_of_important = [&](const std::vector<float>& decoded) {
    double error = 0;
    for (size_t i = 0; i < values.size(); i += 8) error += std::pow(decoded[i] - values[i], 2);
    return error;
  };
  const double plain = error_of_important(through(q4(), values, kRows, kCols));
  const double weighed = error_of_important(through(q4(), values, kRows, kCols, importance.data()));
  EXPECT_LT(weighed, 0.8 * plain);
}

TEST(Q4, EveryScaleCodeIsAnOrdinaryNumberAndLargerThanTheOneBefore) {
  for (int code = 0; code < 256; ++code) {
    const float scale = Q4::scale_of(static_cast<uint8_t>(code));
    EXPECT_TRUE(std::isnormal(scale));
    if (code > 0) {
      EXPECT_GT(scale, Q4::scale_of(static_cast<uint8_t>(code - 1)));
    }
  }
  EXPECT_EQ(Q4::scale_of(0), 0x1p-24F);
  EXPECT_EQ(Q4::scale_of(255), 240.0F);
}

}  // namespace
}  // namespace phidias
