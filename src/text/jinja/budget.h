// The bounds of one parse or rendering. A template comes with a downloaded checkpoint, so it may be
// hostile: it ends with a failure, whatever it tries, in about a second and within a quarter of a
// gigabyte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/jinja/failure.h"

namespace phidias::jinja {

inline constexpr size_t kMaxSourceBytes = size_t{1} << 20;
inline constexpr size_t kMaxOutputBytes = size_t{16} << 20;
inline constexpr size_t kMaxRange = 100'000;  // Jinja's sandbox has this bound too
inline constexpr int kMaxSourceDepth = 200;   // of nested expressions and statements
inline constexpr int kMaxValueDepth =
    600;  // of lists and dicts in each other; JSON text may have 512
inline constexpr int kMaxCallDepth =
    1500;  // of evaluations in each other: recursive macros, printing

// Work is counted in bytes touched. A value is charged when it is made and a string when it is read
// through, and nothing is given back, so that the same number bounds time and memory.
class Budget {
 public:
  static constexpr size_t kWork = size_t{256} << 20;
  static constexpr size_t kStep = 16;     // one expression or statement
  static constexpr size_t kElement = 64;  // one element of a list or dict, with its bookkeeping

  void charge(size_t bytes) {
    if (bytes > left_) fail("TemplateRuntimeError", "the template does more work than is allowed");
    left_ -= bytes;
  }

  // `count` things of `bytes` each; the product may be beyond any integer.
  void charge(size_t count, size_t bytes) {
    if (bytes != 0 && count > left_ / bytes) charge(SIZE_MAX);
    charge(count * bytes);
  }

  // Held while something recursive runs.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.depth_ >= kMaxCallDepth)
        fail("RecursionError", "maximum recursion depth exceeded");
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  size_t left_ = kWork;
  int depth_ = 0;
};

}  // namespace phidias::jinja
