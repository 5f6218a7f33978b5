#include <cmath>

#include "kernel_test.h"
#include "kernels/order.h"
#include "support/tolerance.h"

namespace phidias::test {
namespace {

// A product with a transposed matrix whose memory ends at unreadable pages.
struct TransposedCase {
  size_t outs, cols, rows;
  GuardedArray<float> weights, x;

  TransposedCase(size_t out_count, size_t col_count, size_t row_count)
      : outs(out_count),
        cols(col_count),
        rows(row_count),
        weights(normal_floats(outs * cols, static_cast<uint32_t>(outs + 7 * cols))),
        x(normal_floats(rows * outs, static_cast<uint32_t>(rows))) {}

  // With x as [rows, outs], or as the transpose of [outs, rows].
  TransposedArgs arguments(bool transposed, std::vector<double>& totals) {
    totals.assign(rows * cols, 0.25);
    TransposedArgs args;
    args.weights = weights.data();
    args.weight_stride = cols;
    args.outs = outs;
    args.cols = cols;
    args.x = x.data();
    args.row_stride = transposed ? 1 : outs;
    args.out_stride = transposed ? rows : 1;
    args.rows = rows;
    args.totals = totals.data();
    args.total_stride = cols;
    return args;
  }
};

using Gradient = EachTable;
PHIDIAS_FOR_EACH_TABLE(Gradient);

TEST_P(Gradient, TransposedProductsEqualTheScalarTableBitForBit) {
  for (const size_t outs : {size_t{1}, size_t{9}, size_t{64}}) {
    for (const size_t cols : {size_t{1}, size_t{7}, size_t{16}, size_t{40}, size_t{63}, size_t{64},
                              size_t{96}, size_t{129}, size_t{256}}) {
      for (const size_t rows : {size_t{1}, size_t{2}, size_t{5}, size_t{6}, size_t{13}}) {
        for (const bool transposed : {false, true}) {
          TransposedCase test(outs, cols, rows);
          std::vector<double> got, want;
          table().add_transposed(test.arguments(transposed, got));
          scalar().add_transposed(test.arguments(transposed, want));
          ASSERT_EQ(got, want) << outs << " x " << cols << ", " << rows << " rows";
        }
      }
    }
  }
}

// A chain of at most kChunkRows fused steps has that many roundings.
TEST_P(Gradient, TransposedProductsLieWithinTheDerivedBoundOfTheExactOnes) {
  TransposedCase test(kChunkRows, 72, 7);
  std::vector<double> got;
  table().add_transposed(test.arguments(false, got));
  for (size_t r = 0; r < test.rows; ++r) {
    for (size_t c = 0; c < test.cols; ++c) {
      double value = 0.25;
      double magnitudes = 0.25;
      for (size_t o = 0; o < test.outs; ++o) {
        const double term =
            double{test.weights[o * test.cols + c]} * double{test.x[r * test.outs + o]};
        value += term;
        magnitudes += std::fabs(term);
      }
      ASSERT_NEAR(got[r * test.cols + c], value, gamma(kChunkRows) * magnitudes);
    }
  }
}

// One head's vectors within rows of all heads are a matrix whose rows lie apart.
TEST_P(Gradient, ProductsWithRowsThatLieApartEqualThoseWithDenseOnes) {
  constexpr size_t kOuts = 9, kCols = 24, kStride = 100, kRows = 5;
  const std::vector<float> apart = normal_floats(kOuts * kStride, 3);
  const std::vector<float> x = normal_floats(kRows * kCols, 4);
  std::vector<float> dense;
  for (size_t o = 0; o < kOuts; ++o) {
    const auto row = apart.begin() + static_cast<ptrdiff_t>(o * kStride);
    dense.insert(dense.end(), row, row + kCols);
  }
  AlignedBuffer<float> scratch(matmul_scratch_floats(kCols));
  const auto product = [&](const std::vector<float>& weights, size_t stride) {
    std::vector<float> y(kRows * kOuts);
    MatmulArgs args;
    args.weights = reinterpret_cast<const std::byte*>(weights.data());
    args.row_bytes = stride * sizeof(float);
    args.cols = kCols;
    args.out_end = kOuts;
    args.x = x.data();
    args.x_stride = kCols;
    args.rows = kRows;
    args.y = y.data();
    args.y_stride = kOuts;
    args.scratch = scratch.data();
    table().matmul_f32[index_of(Format::kF32)](args);
    return y;
  };
  EXPECT_EQ(product(apart, kStride), product(dense, kCols));
}

TEST_P(Gradient, SoftmaxGivesTheProbabilitiesThatAttentionUses) {
  for (const size_t count : {size_t{1}, size_t{3}, size_t{8}, size_t{9}, size_t{31}, size_t{200}}) {
    const GuardedArray<float> scores(normal_floats(count, static_cast<uint32_t>(count), 8));
    std::vector<double> scratch((count + kDoubleLanes - 1) / kDoubleLanes * kDoubleLanes, NAN);
    std::vector<float> got(count), want(count);
    table().softmax(scores.data(), scratch.data(), got.data(), count);
    scalar().softmax(scores.data(), scratch.data(), want.data(), count);
    ASSERT_TRUE(same_bits(got, want)) << count;

    // Keys of one dimension with the query 1 have the scores as products; values that are 1 at one
    // key and 0 elsewhere bring out one probability after another.
    std::vector<float> unit(kv_blocks(count) * kKvBlock), padded(unit.size());
    std::memcpy(padded.data(), scores.data(), count * sizeof(float));
    const std::byte* keys = reinterpret_cast<const std::byte*>(padded.data());
    const std::byte* values = reinterpret_cast<const std::byte*>(unit.data());
    AlignedBuffer<float> memory(attention_scratch_floats(count, 1));
    const float query = 1;
    const uint32_t first = 0;
    const auto end = static_cast<uint32_t>(count);
    for (size_t j = 0; j < count; ++j) {
      unit.assign(unit.size(), 0);
      unit[j] = 1;
      float probability = NAN;
      AttentionArgs args;
      args.key_pages = &keys;
      args.value_pages = &values;
      args.page_positions = kMaxPagePositions;
      args.head_dim = 1;
      args.group = 1;
      args.queries = &query;
      args.query_stride = 1;
      args.out = &probability;
      args.out_stride = 1;
      args.rows = 1;
      args.first_key = &first;
      args.end_key = &end;
      args.scratch = memory.data();
      table().attention_exact(args);
      ASSERT_EQ(probability, got[j]) << "key " << j << " of " << count;
    }
  }
}

TEST_P(Gradient, SiluGradientIsTheDerivative) {
  const std::vector<float> gate = normal_floats(77, 5, 6);
  std::vector<float> got(gate.size(), 2.0F), want(gate.size(), 2.0F);
  table().silu_gradient(gate.data(), got.data(), gate.size());
  scalar().silu_gradient(gate.data(), want.data(), gate.size());
  ASSERT_TRUE(same_bits(got, want));
  for (size_t i = 0; i < gate.size(); ++i) {
    const auto silu = [](double g) { return g / (1 + std::exp(-g)); };
    const double step = 1e-5;
    const double slope = (silu(gate[i] + step) - silu(gate[i] - step)) / (2 * step);
    // Of two terms of magnitude at most |gate| + 1, in a dozen roundings.
    ASSERT_NEAR(got[i], 2 * slope, 2 * gamma(12) * (1 + std::fabs(gate[i])) + 1e-9);
  }
}

}  // namespace
}  // namespace phidias::test
