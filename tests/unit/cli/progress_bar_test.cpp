#include "terminal/progress_bar.h"

#include <gtest/gtest.h>

#include "terminal/text.h"

namespace phidias::cli {
namespace {

using Unit = ProgressBar::Unit;

// A clock that stands still until told, and a page that keeps what was written.
struct Watched {
  ProgressBar::Clock::time_point now{};
  std::string written;
  ProgressBar::Seams seams() {
    return {[this](std::string_view text) { written += text; }, [this] { return now; }};
  }
};

const Terminal kTerminal{true, true, 80};

TEST(ProgressBar, SaysNothingWhereNobodyWatches) {
  Watched watched;
  {
    ProgressBar bar(Terminal{}, Unit::kBytes, watched.seams());
    bar.update("file", 1, 2);
    bar.update("file", 2, 2);
  }
  EXPECT_EQ(watched.written, "");
}

TEST(ProgressBar, ShowsShareAmountRateAndTimeLeft) {
  EXPECT_EQ(ProgressBar::line("model.gguf", 50U << 20, 200U << 20, 10 << 20, Unit::kBytes, 100),
            "model.gguf  ━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌   25 %  50.0 MiB of 200.0 MiB  10.0 MiB/s  "
            "15.0 s left");
}

TEST(ProgressBar, NeverSaysAllBeforeTheEnd) {
  EXPECT_NE(ProgressBar::line("f", 9999, 10000, 0, Unit::kCount, 80).find(" 99 %"),
            std::string::npos);
  EXPECT_NE(ProgressBar::line("f", 10000, 10000, 0, Unit::kCount, 80).find("100 %"),
            std::string::npos);
}

TEST(ProgressBar, FitsEveryWidth) {
  for (size_t width = 0; width < 150; ++width) {
    const std::string line = ProgressBar::line("model-00001-of-00002.safetensors", 123'456'789,
                                               5'000'000'000, 1e7, Unit::kBytes, width);
    EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(ProgressBar, UnknownTotalShowsNoShare) {
  EXPECT_EQ(ProgressBar::line("rows", 42, 0, 2, Unit::kCount, 80), "rows  42  2.0/s");
}

TEST(ProgressBar, DrawsTenTimesASecondAtMostAndTheEndAlways) {
  Watched watched;
  ProgressBar bar(kTerminal, Unit::kBytes, watched.seams());
  bar.update("f", 0, 1000);
  const std::string first = watched.written;
  EXPECT_FALSE(first.empty());
  watched.now += std::chrono::milliseconds(50);
  bar.update("f", 10, 1000);
  EXPECT_EQ(watched.written, first);
  bar.update("f", 1000, 1000);
  EXPECT_NE(watched.written, first);
}

TEST(ProgressBar, RateFollowsTheWork) {
  Watched watched;
  ProgressBar bar(kTerminal, Unit::kBytes, watched.seams());
  for (uint64_t second = 0; second <= 20; ++second) {
    bar.update("f", second << 20, 100U << 20);
    watched.now += std::chrono::seconds(1);
  }
  EXPECT_NE(watched.written.rfind("1.0 MiB/s  1 min 20 s left"), std::string::npos)
      << watched.written;
}

TEST(ProgressBar, FinishClearsTheLineOnce) {
  Watched watched;
  {
    ProgressBar bar(kTerminal, Unit::kBytes, watched.seams());
    bar.update("f", 1, 2);
    watched.written.clear();
    bar.finish();
  }
  EXPECT_EQ(watched.written, "\r\x1b[2K");
}

}  // namespace
}  // namespace phidias::cli
