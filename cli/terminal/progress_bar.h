// One line that shows how far a long piece of work is: share, amount, rate, time left. Silent where
// nobody watches.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "terminal/terminal.h"

namespace phidias::cli {

// One thread at a time.
class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;
  struct Seams {  // for tests; by default standard error and the steady clock
    std::function<void(std::string_view)> write;
    std::function<Clock::time_point()> now;
  };
  enum class Unit { kBytes, kCount };

  explicit ProgressBar(const Terminal& terminal, Unit unit = Unit::kBytes);
  ProgressBar(const Terminal& terminal, Unit unit, Seams seams);
  ~ProgressBar();  // as finish()
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second; cheap in between.
  //   total  0 where it is not known: no share and no time left then
  void update(std::string_view label, uint64_t done, uint64_t total);
  // Removes the line, so that what follows stands in its place. May be called twice.
  void finish();

  // The line for a state, without colours; at most `width` columns.
  static std::string line(std::string_view label, uint64_t done, uint64_t total, double rate,
                          Unit unit, size_t width);

 private:
  // Units a second over the last few seconds: steady enough to read, quick enough to follow a
  // change.
  double rate(uint64_t done, Clock::time_point now);

  Terminal terminal_;
  Unit unit_;
  Seams seams_;
  bool drawn_ = false;
  bool started_ = false;
  Clock::time_point last_draw_;
  uint64_t last_done_ = 0;
  double rate_ = 0;
};

}  // namespace phidias::cli
