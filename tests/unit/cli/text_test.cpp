#include "terminal/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace phidias::cli {
namespace {

TEST(FormatBytes, StepsThroughTheUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(98'362'432), "93.8 MiB");
  EXPECT_EQ(format_bytes((1ULL << 30) - 1), "1.0 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(FormatCount, KeepsThreeDigits) {
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(3'821'079'552), "3.82 B");
  EXPECT_EQ(format_count(134'515'008), "135 M");
  EXPECT_EQ(format_count(999'999), "1.00 M");
  EXPECT_EQ(format_count(12'345), "12.3 k");
}

TEST(FormatDuration, ReadsAsPeopleSayIt) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(59.94), "59.9 s");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(245), "4 min 05 s");
  EXPECT_EQ(format_duration(11'220), "3 h 07 min");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
}

TEST(DisplayWidth, CountsColumnsAndNotBytes) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("é"), 1U);
  EXPECT_EQ(display_width("e\u0301"), 1U);
  EXPECT_EQ(display_width("日本"), 4U);
  EXPECT_EQ(display_width("\xff\xfe"), 2U);
}

TEST(FitWidth, CutsBetweenCharacters) {
  EXPECT_EQ(fit_width("model.gguf", 10), "model.gguf");
  EXPECT_EQ(fit_width("model.gguf", 6), "model…");
  EXPECT_EQ(fit_width("日本語", 4), "日…");
  EXPECT_EQ(fit_width("abc", 1), "…");
  EXPECT_EQ(fit_width("abc", 0), "");
}

TEST(PadWidth, FillsEitherSide) {
  EXPECT_EQ(pad_width("日", 4), "日  ");
  EXPECT_EQ(pad_width("7", 3, Align::kRight), "  7");
  EXPECT_EQ(pad_width("long", 2), "long");
}

}  // namespace
}  // namespace phidias::cli
