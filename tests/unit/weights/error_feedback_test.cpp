// Dense algebra, and quantization in which later columns make up for the errors of earlier ones.
#include "weights/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "weights/dense.h"

namespace phidias {
namespace {

std::vector<float> normal_values(size_t count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// Rows of inputs that go together: a few common causes and some noise of each column's own.
std::vector<float> correlated_inputs(size_t rows, size_t width, uint64_t seed) {
  constexpr size_t kCauses = 24;
  const auto causes = normal_values(rows * kCauses, seed);
  const auto loads = normal_values(kCauses * width, seed + 1);
  auto inputs = normal_values(rows * width, seed + 2);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < width; ++c) {
      float& input = inputs[r * width + c];
      for (size_t k = 0; k < kCauses; ++k) input += causes[r * kCauses + k] * loads[k * width + c];
    }
  }
  return inputs;
}

class ErrorFeedbackTest : public ::testing::Test {
 protected:
  // The lower triangle of x^T x.
  AlignedBuffer<float> moments_of(const std::vector<float>& inputs, size_t width) {
    const size_t rows = inputs.size() / width;
    std::vector<float> transposed(inputs.size());
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < width; ++c) transposed[c * rows + r] = inputs[r * width + c];
    }
    AlignedBuffer<float> moments(width * width);
    std::fill(moments.span().begin(), moments.span().end(), 0.0F);
    algebra_.add_moments(transposed.data(), width, rows, moments.data());
    return moments;
  }

  ThreadPool threads_{2};
  DenseAlgebra algebra_{best_table(), threads_};
};

TEST_F(ErrorFeedbackTest, MomentsAreSumsOfOuterProducts) {
  constexpr size_t kWidth = 200, kRows = 37;
  const auto inputs = normal_values(kRows * kWidth, 1);
  const auto moments = moments_of(inputs, kWidth);
  for (size_t i = 0; i < kWidth; ++i) {
    for (size_t j = 0; j < kWidth; ++j) {
      double expected = 0;
      for (size_t r = 0; j <= i && r < kRows; ++r) {
        expected += static_cast<double>(inputs[r * kWidth + i]) *
                    static_cast<double>(inputs[r * kWidth + j]);
      }
      ASSERT_NEAR(moments[i * kWidth + j], expected, 1e-4) << i << ", " << j;
    }
  }
}

TEST_F(ErrorFeedbackTest, TheFactorTimesItsTransposeIsTheMatrix) {
  constexpr size_t kWidth = 200;
  auto matrix = moments_of(correlated_inputs(300, kWidth, 2), kWidth);
  const std::vector<float> before(matrix.data(), matrix.data() + matrix.size());
  ASSERT_TRUE(algebra_.factor(matrix.data(), kWidth));
  for (size_t i = 0; i < kWidth; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (size_t k = 0; k <= j; ++k) {
        product += static_cast<double>(matrix[i * kWidth + k]) *
                   static_cast<double>(matrix[j * kWidth + k]);
      }
      ASSERT_NEAR(product, before[i * kWidth + j], 2e-2) << i << ", " << j;
    }
  }
}

TEST_F(ErrorFeedbackTest, AMatrixThatIsNotPositiveDefiniteHasNoFactor) {
  AlignedBuffer<float> matrix(4);
  matrix[0] = 1, matrix[1] = 0, matrix[2] = 2, matrix[3] = 1;
  EXPECT_FALSE(algebra_.factor(matrix.data(), 2));
}

TEST_F(ErrorFeedbackTest, InputsThatNeverCameGiveNone) {
  AlignedBuffer<float> moments(64 * 64);
  std::fill(moments.span().begin(), moments.span().end(), 0.0F);
  EXPECT_FALSE(ErrorFeedback::create(moments, 64, 32, algebra_).has_value());
}

TEST_F(ErrorFeedbackTest, ProductsLoseLessThanByRoundingAlone) {
  constexpr size_t kWidth = 512, kRows = 40, kTexts = 2000;
  const auto moments = moments_of(correlated_inputs(kTexts, kWidth, 3), kWidth);
  const auto values = normal_values(kRows * kWidth, 9);
  for (const Format format : {Format::kQ4, Format::kQ4_0, Format::kQ4_K, Format::kQ8_0}) {
    const FormatRow& row = format_row(format);
    const auto loss_of = [&](const std::vector<std::byte>& tiles) {
      double loss = 0;
      std::vector<float> decoded(kWidth);
      for (size_t r = 0; r < kRows; ++r) {
        row.decode_row(tiles.data(), r, decoded.data(), kWidth);
        for (size_t c = 0; c < kWidth; ++c) decoded[c] -= values[r * kWidth + c];
        for (size_t i = 0; i < kWidth; ++i) {
          for (size_t j = 0; j <= i; ++j) {
            loss += (i == j ? 1 : 2) * static_cast<double>(moments[i * kWidth + j]) *
                    static_cast<double>(decoded[i]) * static_cast<double>(decoded[j]);
          }
        }
      }
      return loss;
    };
    std::vector<std::byte> plain(row.matrix_bytes(kRows, kWidth)), fed(plain.size());
    for (size_t first = 0; first < kRows; first += row.tile_rows) {
      row.encode_tile(values.data() + first * kWidth,
                      std::min<size_t>(row.tile_rows, kRows - first), nullptr,
                      plain.data() + first / row.tile_rows * row.tile_bytes(kWidth), kWidth);
    }
    const auto feedback = ErrorFeedback::create(moments, kWidth, row.block_values, algebra_);
    ASSERT_TRUE(feedback.has_value());
    ErrorFeedback::Workspace workspace;
    feedback->encode(values.data(), kRows, row, fed.data(), algebra_, workspace, 0);
    EXPECT_LT(loss_of(fed), 0.8 * loss_of(plain)) << row.name;
  }
}

TEST_F(ErrorFeedbackTest, InputsThatDoNotGoTogetherAreRoundedAlone) {
  constexpr size_t kWidth = 128, kRows = 16;
  AlignedBuffer<float> moments(kWidth * kWidth);
  std::fill(moments.span().begin(), moments.span().end(), 0.0F);
  for (size_t i = 0; i < kWidth; ++i) moments[i * kWidth + i] = 3;
  const auto values = normal_values(kRows * kWidth, 5);
  const FormatRow& row = format_row(Format::kQ4);
  std::vector<std::byte> plain(row.matrix_bytes(kRows, kWidth)), fed(plain.size());
  row.encode_tile(values.data(), kRows, nullptr, plain.data(), kWidth);
  const auto feedback = ErrorFeedback::create(moments, kWidth, row.block_values, algebra_);
  ASSERT_TRUE(feedback.has_value());
  ErrorFeedback::Workspace workspace;
  feedback->encode(values.data(), kRows, row, fed.data(), algebra_, workspace, 0);
  EXPECT_EQ(fed, plain);
}

}  // namespace
}  // namespace phidias
