#include "kernel_test.h"
#include "support/tolerance.h"

namespace phidias::test {
namespace {

using LayerNorm = EachTable;
PHIDIAS_FOR_EACH_TABLE(LayerNorm);

TEST_P(LayerNorm, EqualsTheScalarTableAndTheFormula) {
  for (const float middle : {0.0F, 100.0F}) {
    for (const size_t n : {1U, 2U, 7U, 8U, 9U, 15U, 16U, 17U, 31U, 64U, 96U, 100U, 4096U}) {
      std::vector<float> values = normal_floats(n, 1, 3);
      for (float& value : values) value += middle;
      const GuardedArray<float> x{std::span<const float>(values)};
      const GuardedArray<float> weight(normal_floats(n, 2)), bias(normal_floats(n, 3));
      GuardedArray<float> got(n), want(n);
      table().layer_norm(x.data(), weight.data(), bias.data(), 1e-5F, got.data(), n);
      scalar().layer_norm(x.data(), weight.data(), bias.data(), 1e-5F, want.data(), n);
      ASSERT_TRUE(same_bits(got.span(), want.span())) << n;
      double mean = 0;
      for (const float value : values) mean += double{value} / static_cast<double>(n);
      double variance = 0;
      for (const float value : values) {
        variance += (double{value} - mean) * (double{value} - mean) / static_cast<double>(n);
      }
      const double root = std::sqrt(variance + double{1e-5F});
      for (size_t i = 0; i < n; ++i) {
        const double scaled = (double{values[i]} - mean) / root * double{weight.data()[i]};
        const double exact = scaled + double{bias.data()[i]};
        // Rounded: the mean (in units of the mean), difference, inverse, two products and a sum.
        const double of_mean = gamma(1) * std::fabs(mean / root * double{weight.data()[i]});
        ASSERT_NEAR(got[i], exact,
                    of_mean + gamma(5) * (std::fabs(scaled) + std::fabs(exact)) + 1e-12)
            << n;
      }
    }
  }
}

TEST_P(LayerNorm, ARowOfOneValueIsTheBias) {
  const std::vector<float> x(40, 7.25F), weight = normal_floats(40, 4), bias = normal_floats(40, 5);
  std::vector<float> y(40);
  table().layer_norm(x.data(), weight.data(), bias.data(), 1e-5F, y.data(), y.size());
  EXPECT_EQ(y, bias);
}

}  // namespace
}  // namespace phidias::test
