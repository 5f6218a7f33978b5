#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace phidias {
namespace {

using Words = std::array<uint32_t, 2>;

// The vectors published with Random123 for threefry2x32, 20 rounds.
TEST(Random, CipherGivesThePublishedAnswers) {
  EXPECT_EQ(threefry_2x32_20({{0, 0}}, {0, 0}), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry_2x32_20({{0xffffffff, 0xffffffff}}, {0xffffffff, 0xffffffff}),
            (Words{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry_2x32_20({{0x13198a2e, 0x03707344}}, {0x243f6a88, 0x85a308d3}),
            (Words{0xc4923a9c, 0x483df7a0}));
}

// Computed with the cipher of jax 0.10.2; a change here changes every seeded answer.
TEST(Random, DrawsOfTheEngineAreFixed) {
  const RandomKey key = draw_key(0x0123456789abcdef, 3, 4097);
  EXPECT_EQ(key, (RandomKey{{0x21f04a63, 0xf4284160}}));
  const std::vector<uint32_t> ids{0, 5, 200063};
  std::vector<uint64_t> bits(ids.size());
  draw_bits(key, ids, bits);
  EXPECT_EQ(bits,
            (std::vector<uint64_t>{0x174f39f43c7c492c, 0x2b3c07b2e2cb7fa7, 0x815b67343143a722}));
}

TEST(Random, DrawsDifferWithSeedChoiceAndPosition) {
  const RandomKey key = draw_key(1, 2, 3);
  EXPECT_NE(key, draw_key(2, 2, 3));
  EXPECT_NE(key, draw_key(uint64_t{1} << 32 | 1, 2, 3));
  EXPECT_NE(key, draw_key(1, 3, 3));
  EXPECT_NE(key, draw_key(1, 2, 4));
  EXPECT_NE(key, draw_key(1, 3, 2));
}

TEST(Random, OpenUniformNeverTouchesZeroOrOne) {
  EXPECT_EQ(open_uniform(0), 0x1p-53);
  EXPECT_EQ(open_uniform(~uint64_t{0}), 1 - 0x1p-53);
  EXPECT_EQ(open_uniform(uint64_t{1} << 63), 0.5 + 0x1p-53);
}

TEST(Random, PortableLogIsTheLogarithm) {
  for (int exponent = -1022; exponent <= 1023; exponent += 5) {
    for (double mantissa = 1; mantissa < 2; mantissa += 0.0137) {
      const double x = std::ldexp(mantissa, exponent);
      EXPECT_NEAR(portable_log(x), std::log(x), 1e-15 * std::abs(std::log(x))) << x;
    }
  }
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_NEAR(portable_log(1 - 0x1p-53), -0x1p-53, 1e-31);
  EXPECT_EQ(portable_log(0), -std::numeric_limits<double>::infinity());
}

TEST(Random, PortableLogHasFixedBits) {
  EXPECT_EQ(portable_log(2), 0x1.62e42fefa39efp-1);
  EXPECT_EQ(portable_log(0.1), -0x1.26bb1bbb55515p+1);
  EXPECT_EQ(gumbel(0.3), -0x1.7c29e1d49c573p-3);
}

TEST(Random, GumbelNoiseIsFiniteAndBelowItsBound) {
  std::vector<uint64_t> bits(4096);
  std::vector<uint32_t> ids(bits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  draw_bits(draw_key(5, 0, 0), ids, bits);
  for (unsigned ones = 0; ones <= 64;
       ++ones) {  // every number of leading ones, next to the step's two ends
    const uint64_t upper = ones == 0 ? 0 : ~uint64_t{0} << (64 - ones);
    bits.push_back(upper);
    bits.push_back(ones >= 63 ? upper : upper | ((uint64_t{1} << (63 - ones)) - 1));
  }
  for (const uint64_t word : bits) {
    const double noise = gumbel(open_uniform(word));
    EXPECT_TRUE(std::isfinite(noise)) << word;
    EXPECT_LE(noise, gumbel_bound(word)) << word;
  }
}

TEST(Random, GumbelOfOneIsInfinite) {
  EXPECT_EQ(gumbel(1), std::numeric_limits<double>::infinity());
}

TEST(Random, GumbelNoiseHasItsMeanAndVariance) {
  constexpr size_t kCount = 100000;
  std::vector<uint64_t> bits(kCount);
  std::vector<uint32_t> ids(kCount);
  std::iota(ids.begin(), ids.end(), 0u);
  draw_bits(draw_key(17, 0, 0), ids, bits);
  double sum = 0;
  double squares = 0;
  for (const uint64_t word : bits) {
    const double noise = gumbel(open_uniform(word));
    sum += noise;
    squares += noise * noise;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5772156649, 4 * 1.2825 / std::sqrt(kCount));  // four standard errors
  EXPECT_NEAR(squares / kCount - mean * mean, 1.6449340668, 0.04);
}

// Printed by jax 0.10.2: random.split(key, 3), random.bits(key, ...), random.uniform(key, (2, 3)).
TEST(Random, SplitBitsAndUniformsEqualThoseOfJax) {
  const RandomKey key{{0, 42}};
  EXPECT_EQ(split(key, 3), (std::vector<RandomKey>{{{0x6d3e048f, 0x1022172d}},
                                                   {{0x03d7b32d, 0xadd083f4}},
                                                   {{0x92fb20ea, 0x0f38d913}}}));
  const std::vector<uint32_t> bits{0x7d1c13a2, 0xae0730d9, 0x9dc3f9f9,
                                   0x8f9ec1d7, 0x735d7315, 0x95fb4ed8};
  const std::vector<double> uniforms{0x1.f47048p-2, 0x1.5c0e6p-1,  0x1.3b87fp-1,
                                     0x1.1f3d8p-1,  0x1.cd75c8p-2, 0x1.2bf69cp-1};
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(bits_at(key, i), bits[i]) << i;
    EXPECT_EQ(uniform_23(bits[i], UniformMapping::kRaw), uniforms[i]) << i;
    EXPECT_EQ(uniform_23(bits[i], UniformMapping::kHalfStep), uniforms[i] + 0x1p-24) << i;
  }
  const RandomKey other{{0x12345678, 0x9abcdef0}};
  EXPECT_EQ(split(other, 2),
            (std::vector<RandomKey>{{{0xed280379, 0xa0bb73c3}}, {{0x7c4d1fd5, 0x595dd64b}}}));
  EXPECT_EQ(bits_at(other, 0), 0x4d9370bau);
  EXPECT_EQ(bits_at(other, 32063), 0xc6354319u);
}

}  // namespace
}  // namespace phidias
