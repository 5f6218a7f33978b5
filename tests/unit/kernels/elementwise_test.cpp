#include "kernel_test.h"
#include "support/tolerance.h"

namespace phidias::test {
namespace {

using Elementwise = EachTable;
PHIDIAS_FOR_EACH_TABLE(Elementwise);

constexpr size_t kLengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 64, 96, 100, 3072};

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_P(Elementwise, RmsNormEqualsTheScalarTableAndTheFormula) {
  for (const size_t n : kLengths) {
    const GuardedArray<float> x(normal_floats(n, 1, 3)), weight(normal_floats(n, 2));
    GuardedArray<float> got(n), want(n);
    table().rms_norm(x.data(), weight.data(), 1e-5F, got.data(), n);
    scalar().rms_norm(x.data(), weight.data(), 1e-5F, want.data(), n);
    ASSERT_TRUE(same_bits(got.span(), want.span())) << n;
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += double{x.data()[i]} * double{x.data()[i]};
    const double root = std::sqrt(squares / static_cast<double>(n) + double{1e-5F});
    for (size_t i = 0; i < n; ++i) {
      const double exact = double{weight.data()[i]} * (double{x.data()[i]} / root);
      // Rounded: the inverse root and two products.
      ASSERT_NEAR(got[i], exact, gamma(3.1) * std::fabs(exact)) << n;
    }
  }
}

TEST_P(Elementwise, RopeRotatesPairsHalfAHeadApart) {
  for (const size_t half : {size_t{1}, size_t{4}, size_t{8}, size_t{24}, size_t{48}, size_t{50}}) {
    std::vector<float> cosine(half), sine(half);
    for (size_t i = 0; i < half; ++i) {
      cosine[i] = std::cos(static_cast<float>(i));
      sine[i] = std::sin(static_cast<float>(i));
    }
    const GuardedArray<float> c{std::span<const float>(cosine)}, s{std::span<const float>(sine)};
    const std::vector<float> head = normal_floats(2 * half, 5);
    GuardedArray<float> got{std::span<const float>(head)}, want{std::span<const float>(head)};
    table().rope(got.data(), c.data(), s.data(), half);
    scalar().rope(want.data(), c.data(), s.data(), half);
    ASSERT_TRUE(same_bits(got.span(), want.span())) << half;
    for (size_t i = 0; i < half; ++i) {
      const double a = head[i], b = head[i + half];
      const double tolerance = gamma(2.1) * (std::fabs(a) + std::fabs(b));
      ASSERT_NEAR(got[i], a * double{cosine[i]} - b * double{sine[i]}, tolerance);
      ASSERT_NEAR(got[i + half], b * double{cosine[i]} + a * double{sine[i]}, tolerance);
    }
  }
}

TEST_P(Elementwise, SiluMulIsAccurateOverTheWholeRange) {
  std::vector<float> gate;
  for (float x = -100; x <= 100; x += 0.0625F) gate.push_back(x);
  gate.insert(gate.end(), {0.0F, -0.0F, 1e-30F, -1e-30F, 1e30F, kInfinity});
  const std::vector<float> up = normal_floats(gate.size(), 3);
  GuardedArray<float> got(gate.size()), want(gate.size());
  table().silu_mul(gate.data(), up.data(), got.data(), gate.size());
  scalar().silu_mul(gate.data(), up.data(), want.data(), gate.size());
  ASSERT_TRUE(same_bits(got.span(), want.span()));
  for (size_t i = 0; i < gate.size(); ++i) {
    if (std::isinf(gate[i])) continue;
    const double exact = double{up[i]} * double{gate[i]} / (1 + std::exp(-double{gate[i]}));
    // exp within 2 ulp (4 u) and four roundings; beyond exp(88) only the magnitude counts.
    ASSERT_NEAR(got[i], exact, gamma(9) * std::fabs(exact) + 1e-35) << gate[i];
  }
}

TEST_P(Elementwise, SiluMulKeepsNan) {
  const std::vector<float> gate(9, kNan), up(9, 1.0F);
  std::vector<float> y(9);
  table().silu_mul(gate.data(), up.data(), y.data(), y.size());
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Elementwise, AddAddsInPlace) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = normal_floats(n, 1), y = normal_floats(n, 2);
    GuardedArray<float> got{std::span<const float>(x)};
    table().add(got.data(), y.data(), n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(got[i], x[i] + y[i]);
  }
}

TEST_P(Elementwise, QuantizeQ8EqualsTheScalarTableAndLosesHalfAStepAtMost) {
  std::vector<float> x = normal_floats(32 * 40, 9);
  for (size_t i = 0; i < 32; ++i) {
    x[i] = 0;                                              // an all-zero group
    x[32 + i] = 1e-37F;                                    // a scale that would be subnormal
    x[64 + i] = static_cast<float>(i) - 15.5F;             // ties
    x[96 + i] = i == 3 ? -3e38F : 1e38F;                   // large
    x[128 + i] = static_cast<float>(i % 2 == 0 ? 1 : -1);  // all of one magnitude
  }
  x[170] = 60;  // an outlier, worth a second term
  QuantizedMemory got_memory(table(), x, 1), want_memory(scalar(), x, 1);
  const QuantizedRows got = got_memory.rows(), want = want_memory.rows();
  const size_t groups = x.size() / 32;
  ASSERT_EQ(0, std::memcmp(got.values, want.values, x.size()));
  ASSERT_TRUE(same_bits({got.scales, groups}, {want.scales, groups}));
  ASSERT_TRUE(same_bits({got.sums, groups}, {want.sums, groups}));
  ASSERT_TRUE(same_bits({got.second_scales, groups}, {want.second_scales, groups}));
  for (size_t g = 0; g < groups; ++g) {
    int sum = 0, second_sum = 0;
    for (size_t i = g * 32; i < (g + 1) * 32; ++i) {
      ASSERT_GE(got.values[i], -127);
      sum += got.values[i];
      const double first = double{got.scales[g]} * got.values[i];
      if (got.scales[g] == 0) {
        ASSERT_EQ(got.values[i], 0);
      } else if (got.second_scales[g] == 0) {
        ASSERT_NEAR(x[i], first, double{got.scales[g]} * (0.5 + 127 * gamma(4)));
      } else {
        ASSERT_EQ(got.second_values[i], want.second_values[i]);
        ASSERT_GE(got.second_values[i], -127);
        second_sum += got.second_values[i];
        const double second = double{got.second_scales[g]} * got.second_values[i];
        ASSERT_NEAR(x[i], first + second, double{got.second_scales[g]} * 0.51);
      }
    }
    ASSERT_EQ(got.sums[g], got.scales[g] * static_cast<float>(sum));
    if (got.second_scales[g] != 0) {
      ASSERT_EQ(got.second_sums[g], got.second_scales[g] * static_cast<float>(second_sum));
    }
  }
}

TEST_P(Elementwise, OnlyGroupsWithOutliersHaveASecondTerm) {
  std::vector<float> x = normal_floats(32 * 64, 4);
  for (const float outlier : {6.0F, -9.0F}) {
    x[32 * 5 + 7] = outlier;
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    const double rms = std::sqrt(squares / static_cast<double>(x.size()));
    QuantizedMemory memory(table(), x, 1);
    for (size_t g = 0; g < 64; ++g) {
      const bool expected = g == 5 && std::fabs(outlier) > kSecondTermRms * rms;
      EXPECT_EQ(memory.rows().second_scales[g] != 0, expected) << g;
    }
  }
}

TEST_P(Elementwise, QuantizeQ8LetsNanAndInfinityShowInTheScale) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{13}, size_t{31}}) {
      std::vector<float> x(32, 1.0F);
      x[at] = bad;
      QuantizedMemory memory(table(), x, 1);
      const QuantizedRows got = memory.rows();
      EXPECT_FALSE(std::isfinite(got.scales[0]));
      EXPECT_TRUE(std::isnan(got.sums[0]));
      EXPECT_EQ(got.second_scales[0], 0.0F);
      for (size_t i = 0; i < 32; ++i) EXPECT_EQ(got.values[i], 0);
    }
  }
}

TEST_P(Elementwise, ArgmaxFindsTheFirstOfTheLargest) {
  for (const size_t n : kLengths) {
    std::vector<float> x = normal_floats(n, static_cast<uint32_t>(n));
    for (float& value : x) value = -std::fabs(value) - 1;
    for (size_t at = 0; at<n; at += n> 100 ? 97 : 1) {
      std::vector<float> peaked = x;
      for (size_t i = at; i < n; i += 5) peaked[i] = -0.5F;
      const GuardedArray<float> guarded{std::span<const float>(peaked)};
      ASSERT_EQ(table().argmax(guarded.data(), n), at) << n;
    }
  }
}

TEST_P(Elementwise, ArgmaxOfInfinitiesZerosAndNan) {
  const auto argmax = [&](std::vector<float> x) { return table().argmax(x.data(), x.size()); };
  EXPECT_EQ(argmax({-kInfinity, -kInfinity, -kInfinity}), 0U);
  EXPECT_EQ(argmax({0, kInfinity, 1, kInfinity}), 1U);
  EXPECT_EQ(argmax({-1, -0.0F, 0.0F}), 1U);
  for (size_t n = 1; n < 40; ++n) {
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> x(n, 1.0F);
      x[at] = kNan;
      ASSERT_EQ(argmax(x), n) << n << " " << at;
    }
  }
}

TEST_P(Elementwise, KvStoreEqualsThePlainConversionForEveryType) {
  for (size_t type = 0; type < kKvTypeCount; ++type) {
    const KvTypeRow& row = kv_type_row(static_cast<KvType>(type));
    ASSERT_EQ(index_of(row.type), type);
    for (const size_t dim : {size_t{1}, size_t{3}, size_t{8}, size_t{16}, size_t{80}, size_t{98}}) {
      std::vector<float> x = normal_floats(dim, 4, 100);
      if (dim > 16) {
        const std::vector<float> special = {0,     -0.0F,  1e-8F,    6e-8F,      65504,   65519,
                                            65520, 1e-40F, 0x1p-24F, 0x1.8p-25F, 0x1p-25F};
        if (row.type != KvType::kQ8) std::copy(special.begin(), special.end(), x.begin());
        if (row.type == KvType::kF16 || row.type == KvType::kBF16) {
          x[12] = kInfinity;
          x[13] = -kInfinity;
          x[14] = kNan;
        }
      }
      const GuardedArray<float> guarded{std::span<const float>(x)};
      // Every slot of two blocks, so that a store that strays is seen.
      const size_t bytes = 2 * row.block_bytes(dim);
      GuardedArray<std::byte> got(bytes), want(bytes);
      for (size_t slot = 0; slot < 2 * kKvBlock; ++slot) {
        table().store_key[type](guarded.data(), got.data(), slot, dim);
        row.store_key(x.data(), want.data(), slot, dim);
        ASSERT_EQ(0, std::memcmp(got.data(), want.data(), bytes)) << row.name << " " << dim;
      }
      for (size_t slot = 0; slot < 2 * kKvBlock; ++slot) {
        table().store_value[type](guarded.data(), got.data(), slot, dim);
        row.store_value(x.data(), want.data(), slot, dim);
        ASSERT_EQ(0, std::memcmp(got.data(), want.data(), bytes)) << row.name << " " << dim;
      }
    }
  }
}

TEST(KvTypes, StoredVectorsComeBackWithinTheirPrecision) {
  const std::vector<float> x = normal_floats(96, 6);
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  for (const auto& [type, relative, absolute] :
       {std::tuple(KvType::kF32, 0.0, 0.0), std::tuple(KvType::kF16, 0x1p-11, 0x1p-25),
        std::tuple(KvType::kBF16, 0x1p-8, 0.0),
        std::tuple(KvType::kQ8, 0.0, 0.501 * double{largest} / 127)}) {
    const KvTypeRow& row = kv_type_row(type);
    std::vector<std::byte> stored(2 * row.block_bytes(x.size()));
    for (const size_t slot : {size_t{0}, size_t{5}, size_t{16}, size_t{31}}) {
      std::vector<float> keys(x.size()), values(x.size());
      row.store_key(x.data(), stored.data(), slot, x.size());
      row.load_key(stored.data(), slot, keys.data(), x.size());
      row.store_value(x.data(), stored.data(), slot, x.size());
      row.load_value(stored.data(), slot, values.data(), x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(keys[i], x[i], relative * std::fabs(x[i]) + absolute) << row.name;
        EXPECT_EQ(keys[i], values[i]) << row.name;
      }
    }
  }
}

}  // namespace
}  // namespace phidias::test
