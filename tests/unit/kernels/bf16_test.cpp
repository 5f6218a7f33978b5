// Products with activations in bf16.
#include "kernel_test.h"
#include "kernels/order.h"
#include "quant/float16.h"
#include "unit/kernels/bf16_stand_in.h"

namespace phidias::test {
namespace {

struct Shape {
  size_t outs;
  size_t cols;
  size_t rows;
};
constexpr Shape kShapes[] = {{1, 2, 1},    {3, 30, 2},     {16, 64, 6},   {17, 96, 7},
                             {8, 1026, 1}, {70, 1200, 13}, {9, 2050, 200}};

struct Case {
  explicit Case(const Shape& of)
      : shape(of),
        x(normal_floats(of.rows * of.cols, 3)),
        weights(of.outs * of.cols),
        rounded(of.rows * of.cols) {
    const std::vector<float> source = normal_floats(weights.size(), 4);
    for (size_t i = 0; i < source.size(); ++i) weights[i] = encode_bf16(source[i]);
    for (size_t i = 0; i < x.size(); ++i) rounded[i] = encode_bf16(x[i]);
  }

  std::vector<float> run(MatmulFn matmul, size_t first_row, size_t rows) const {
    const GuardedArray<uint16_t> w{std::span<const uint16_t>(weights)};
    const GuardedArray<uint16_t> activations{
        std::span<const uint16_t>(rounded).subspan(first_row * shape.cols, rows * shape.cols)};
    std::vector<float> y(rows * shape.outs, NAN);
    AlignedBuffer<float> scratch(matmul_scratch_floats(shape.cols));
    MatmulArgs args;
    args.weights = reinterpret_cast<const std::byte*>(w.data());
    args.row_bytes = 2 * shape.cols;
    args.cols = shape.cols;
    args.out_end = shape.outs;
    args.bf16 = activations.data();
    args.rows = rows;
    args.y = y.data();
    args.y_stride = shape.outs;
    args.scratch = scratch.data();
    matmul(args);
    return y;
  }
  std::vector<float> run(MatmulFn matmul) const { return run(matmul, 0, shape.rows); }

  // The order of order.h, one value at a time.
  float plain(size_t row, size_t out) const {
    double total = 0;
    const size_t pairs = shape.cols / 2;
    for (size_t begin = 0; begin < pairs; begin += kChunkColumns) {
      float lanes[kFloatLanes] = {};
      for (size_t p = begin; p < std::min(pairs, begin + kChunkColumns); ++p) {
        float& lane = lanes[p % kFloatLanes];
        for (const size_t i : {2 * p + 1, 2 * p}) {
          lane = std::fma(decode_bf16(weights[out * shape.cols + i]),
                          decode_bf16(rounded[row * shape.cols + i]), lane);
        }
      }
      for (size_t half = kFloatLanes / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      }
      total += double{lanes[0]};
    }
    return static_cast<float>(total);
  }

  Shape shape;
  std::vector<float> x;
  std::vector<uint16_t> weights, rounded;
};

bool has_avx512() { return table_by_name("avx512_vnni") != nullptr; }

TEST(Bf16, TheKernelIsThePlainSumWithTheInstructionsRoundings) {
  if (!has_avx512()) GTEST_SKIP() << "this CPU has no AVX-512";
  for (const Shape& shape : kShapes) {
    const Case test(shape);
    const std::vector<float> got = test.run(stand_in_matmul_bf16);
    for (size_t r = 0; r < shape.rows; ++r) {
      for (size_t o = 0; o < shape.outs; ++o) {
        ASSERT_EQ(got[r * shape.outs + o], test.plain(r, o)) << shape.cols << " " << r << " " << o;
      }
    }
  }
}

TEST(Bf16, ARowAloneHasTheBitsItHasAmongOthers) {
  if (!has_avx512()) GTEST_SKIP() << "this CPU has no AVX-512";
  for (const Shape& shape : kShapes) {
    const Case test(shape);
    std::vector<float> alone;
    for (size_t r = 0; r < shape.rows; ++r) {
      const std::vector<float> one = test.run(stand_in_matmul_bf16, r, 1);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    ASSERT_TRUE(same_bits(test.run(stand_in_matmul_bf16), alone)) << shape.cols;
  }
}

using Bf16Table = EachTable;
PHIDIAS_FOR_EACH_TABLE(Bf16Table);

TEST_P(Bf16Table, RoundingEqualsThePlainOne) {
  for (const size_t n : {size_t{1}, size_t{7}, size_t{16}, size_t{33}, size_t{3072}}) {
    std::vector<float> x = normal_floats(n, 5);
    x[0] = NAN;
    const GuardedArray<float> guarded{std::span<const float>(x)};
    GuardedArray<uint16_t> got(n);
    table().round_bf16(guarded.data(), got.data(), n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(got[i], encode_bf16(x[i])) << n << " " << i;
  }
}

// Within a rounding of each product and sum, whatever order the processor takes.
TEST_P(Bf16Table, TheInstructionComesCloseToThePlainSum) {
  if (table().matmul_bf16 == nullptr) GTEST_SKIP() << "this table has no product of bf16";
  for (const Shape& shape : kShapes) {
    const Case test(shape);
    const std::vector<float> got = test.run(table().matmul_bf16);
    for (size_t r = 0; r < shape.rows; ++r) {
      for (size_t o = 0; o < shape.outs; ++o) {
        const float tolerance = 1e-5F * std::sqrt(static_cast<float>(shape.cols)) * 16;
        ASSERT_NEAR(got[r * shape.outs + o], test.plain(r, o), tolerance) << shape.cols;
      }
    }
  }
}

}  // namespace
}  // namespace phidias::test
