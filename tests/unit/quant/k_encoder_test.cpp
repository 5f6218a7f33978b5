// Our own encoders of the K formats: no reference bytes exist for them, so they are held to bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <vector>

#include "quant/format.h"
#include "quant/k_search.h"

namespace phidias {
namespace {

std::vector<float> gaussian(size_t count, float deviation, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<float> through(Format format, const std::vector<float>& values) {
  const FormatRow& row = format_row(format);
  std::vector<std::byte> bytes(row.row_bytes(values.size()));
  std::vector<float> decoded(values.size());
  row.encode(values.data(), bytes.data(), values.size());
  row.decode(bytes.data(), decoded.data(), values.size());
  return decoded;
}

// Root mean square of the difference, over that of the values.
double relative_error(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double miss = static_cast<double>(decoded[i]) - values[i];
    error += miss * miss;
    size += static_cast<double>(values[i]) * values[i];
  }
  return std::sqrt(error / size);
}

// What the format's bits would give without a search, but with exact scales instead of coarse ones:
// levels spread evenly from the smallest to the largest value of each sub-block, or about 0 to the
// largest magnitude.
std::vector<float> round_to_nearest(const std::vector<float>& values, size_t sub_block, int levels,
                                    bool symmetric) {
  std::vector<float> rounded(values.size());
  for (size_t at = 0; at < values.size(); at += sub_block) {
    const auto [lowest, highest] = std::minmax_element(&values[at], &values[at] + sub_block);
    const float low = symmetric ? 0 : *lowest;
    const float step = symmetric ? std::max(-*lowest, *highest) / static_cast<float>(levels / 2 - 1)
                                 : (*highest - low) / static_cast<float>(levels - 1);
    for (size_t i = at; i < at + sub_block; ++i) {
      rounded[i] = low + step * std::round((values[i] - low) / step);
    }
  }
  return rounded;
}

struct Bound {
  Format format;
  size_t sub_block;
  int levels;
  bool symmetric;
  double gaussian;     // largest relative error on normal values
  double second_time;  // largest relative error when what was decoded is encoded again
};

void PrintTo(const Bound& bound, std::ostream* out) { *out << format_row(bound.format).name; }

class KEncoder : public ::testing::TestWithParam<Bound> {};

TEST_P(KEncoder, IsNoWorseThanRoundingWithExactScales) {
  const Bound& bound = GetParam();
  const std::vector<float> values = gaussian(256 * 256, 0.02F, 1);
  const double error = relative_error(values, through(bound.format, values));
  const double plain = relative_error(
      values, round_to_nearest(values, bound.sub_block, bound.levels, bound.symmetric));
  RecordProperty("relative_error", std::to_string(error));
  RecordProperty("round_to_nearest", std::to_string(plain));
  EXPECT_LT(error, plain);
  EXPECT_LT(error, bound.gaussian);
}

TEST_P(KEncoder, EncodesWhatItDecodedAlmostExactly) {
  const std::vector<float> once = through(GetParam().format, gaussian(256 * 64, 0.02F, 2));
  const double error = relative_error(once, through(GetParam().format, once));
  RecordProperty("second_time", std::to_string(error));
  EXPECT_LT(error, GetParam().second_time);
}

TEST_P(KEncoder, ScalesWithItsInput) {
  const std::vector<float> values = gaussian(256 * 16, 1.0F, 3);
  for (const float factor : {1e-3F, 1e3F}) {
    std::vector<float> scaled(values);
    for (float& value : scaled) value *= factor;
    EXPECT_LT(relative_error(scaled, through(GetParam().format, scaled)), GetParam().gaussian);
  }
}

TEST_P(KEncoder, ValuesOfOneSignKeepTheirAccuracy) {
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> values = gaussian(256 * 16, 1.0F, 4);
    for (float& value : values) value = sign * (std::fabs(value) + 0.01F);
    EXPECT_LT(relative_error(values, through(GetParam().format, values)), GetParam().gaussian);
  }
}

TEST_P(KEncoder, AConstantBlockStaysConstant) {
  for (const float constant : {0.5F, -0.5F, 100.0F}) {
    const std::vector<float> values(256, constant);
    const std::vector<float> decoded = through(GetParam().format, values);
    for (const float value : decoded) EXPECT_NEAR(value, constant, std::fabs(constant) * 2e-3F);
  }
}

TEST_P(KEncoder, OneOutlierSpoilsItsOwnSubBlockOnly) {
  std::vector<float> values = gaussian(256, 0.02F, 5);
  values[40] = 0.3F;
  const std::vector<float> decoded = through(GetParam().format, values);
  EXPECT_NEAR(decoded[40], 0.3F, 0.02F);
  const std::vector<float> far(values.begin() + 128, values.end());
  const std::vector<float> far_decoded(decoded.begin() + 128, decoded.end());
  EXPECT_LT(relative_error(far, far_decoded), 2 * GetParam().gaussian);
}

TEST_P(KEncoder, WhatMattersMoreErrsLess) {
  const std::vector<float> values = gaussian(256 * 64, 0.02F, 7);
  std::vector<float> importance(values.size(), 1.0F);
  for (size_t i = 0; i < importance.size(); i += 8) importance[i] = 100.0F;
  const FormatRow& row = format_row(GetParam().format);
  const auto error_of_important = [&](const float* weights) {
    std::vector<std::byte> bytes(row.row_bytes(values.size()));
    std::vector<float> decoded(values.size());
    row.encode(values.data(), bytes.data(), values.size(), weights);
    row.decode(bytes.data(), decoded.data(), values.size());
    double error = 0;
    for (size_t i = 0; i < values.size(); i += 8) {
      error += std::pow(static_cast<double>(decoded[i]) - values[i], 2);
    }
    return error;
  };
  EXPECT_LT(error_of_important(importance.data()), 0.8 * error_of_important(nullptr));
}

TEST_P(KEncoder, ColumnsThatDoNotMatterAtAllAreRoundedAsIfTheyDid) {
  const std::vector<float> values = gaussian(256, 0.02F, 8);
  const std::vector<float> importance(256, 0.0F);
  const FormatRow& row = format_row(GetParam().format);
  std::vector<std::byte> plain(row.row_bytes(256)), weighed(row.row_bytes(256));
  row.encode(values.data(), plain.data(), 256);
  row.encode(values.data(), weighed.data(), 256, importance.data());
  EXPECT_EQ(plain, weighed);
}

INSTANTIATE_TEST_SUITE_P(Formats, KEncoder,
                         ::testing::Values(Bound{Format::kQ4_K, 32, 16, false, 0.073, 0.005},
                                           Bound{Format::kQ5_K, 32, 32, false, 0.036, 0.008},
                                           Bound{Format::kQ6_K, 16, 64, true, 0.0175, 0.001}),
                         [](const auto& test) {
                           return std::string(format_row(test.param.format).name);
                         });

TEST(SubBlockCodes, EveryCodeSurvivesPacking) {
  std::mt19937 generator(6);
  for (int round = 0; round < 1000; ++round) {
    SubBlockCodes codes;
    for (size_t s = 0; s < 8; ++s) {
      codes.scale[s] = static_cast<uint8_t>(generator() & 63U);
      codes.minimum[s] = static_cast<uint8_t>(generator() & 63U);
    }
    uint8_t packed[12];
    pack_codes(codes, packed);
    const SubBlockCodes again = unpack_codes(packed);
    for (size_t s = 0; s < 8; ++s) {
      EXPECT_EQ(again.scale[s], codes.scale[s]);
      EXPECT_EQ(again.minimum[s], codes.minimum[s]);
    }
  }
}

}  // namespace
}  // namespace phidias
