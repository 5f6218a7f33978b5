#include "quant/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace phidias {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// What the standard says a binary16 is, written with ldexp alone.
float value_of_f16(uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31U);
  const auto fraction = static_cast<float>(bits & 1023U);
  const float magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                          : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                           : std::ldexp(1024.0F + fraction, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(Float16, EveryF16DecodesToItsValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float decoded = decode_f16(static_cast<uint16_t>(bits));
    const float expected = value_of_f16(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(decoded)) << bits;
      EXPECT_EQ(std::signbit(decoded), (bits & 0x8000U) != 0) << bits;
    } else {
      EXPECT_EQ(bits_of(decoded), bits_of(expected)) << bits;
    }
  }
}

TEST(Float16, EveryF16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t again = encode_f16(decode_f16(static_cast<uint16_t>(bits)));
    const bool is_nan = (bits & 0x7C00U) == 0x7C00U && (bits & 0x3FFU) != 0;
    EXPECT_EQ(again, is_nan ? bits | 0x200U : bits);
  }
}

TEST(Float16, EveryBf16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float decoded = decode_bf16(static_cast<uint16_t>(bits));
    EXPECT_EQ(bits_of(decoded), bits << 16);
    const bool is_nan = (bits & 0x7F80U) == 0x7F80U && (bits & 0x7FU) != 0;
    EXPECT_EQ(encode_bf16(decoded), is_nan ? bits | 0x40U : bits);
  }
}

// Between two neighbours: the midpoint goes to the even one, everything else to the nearer one.
TEST(Float16, F16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7BFFU; ++bits) {
    const float low = decode_f16(static_cast<uint16_t>(bits));
    const float high = decode_f16(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact in a float
    EXPECT_EQ(encode_f16(middle), bits + (bits & 1U));
    EXPECT_EQ(encode_f16(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(encode_f16(std::nextafter(middle, INFINITY)), bits + 1);
    EXPECT_EQ(encode_f16(-middle), 0x8000U | (bits + (bits & 1U)));
  }
}

TEST(Float16, Bf16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7F7FU; ++bits) {
    const uint32_t middle_bits = (bits << 16) | 0x8000U;
    float middle = 0;
    std::memcpy(&middle, &middle_bits, sizeof(middle));
    EXPECT_EQ(encode_bf16(middle), bits + (bits & 1U));
    EXPECT_EQ(encode_bf16(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(encode_bf16(std::nextafter(middle, INFINITY)), bits + 1);
    EXPECT_EQ(encode_bf16(-middle), 0x8000U | (bits + (bits & 1U)));
  }
}

TEST(Float16, ValuesBeyondTheRangeBecomeInfinite) {
  EXPECT_EQ(encode_f16(65504.0F), 0x7BFF);
  EXPECT_EQ(encode_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(encode_f16(65520.0F), 0x7C00);
  EXPECT_EQ(encode_f16(-1e30F), 0xFC00);
  EXPECT_EQ(encode_f16(INFINITY), 0x7C00);
  EXPECT_EQ(encode_bf16(3.4028235e38F), 0x7F80);
  EXPECT_EQ(encode_bf16(-INFINITY), 0xFF80);
}

TEST(Float16, NanStaysNan) {
  // The payload's low bits are all that this one has: truncation alone would make it infinite.
  const uint32_t bits = 0x7F800001U;
  float nan = 0;
  std::memcpy(&nan, &bits, sizeof(nan));
  EXPECT_EQ(encode_f16(nan), 0x7E00);
  EXPECT_EQ(encode_bf16(nan), 0x7FC0);
}

}  // namespace
}  // namespace phidias
