// Ways of reading memory with vectors of one instruction set: for the probes, which include this
// after choosing Vec (with load(), zero() and |).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/probes.h"

namespace phidias {
namespace {

constexpr size_t kLine = 64;

// `Streams` parts of the range side by side; each line is prefetched `Ahead` bytes before its turn
// (0: never).
template <class Vec, size_t Streams, size_t Ahead>
uint64_t read_streams(const std::byte* data, size_t bytes) {
  constexpr size_t kVectors = kLine / Vec::kBytes;
  Vec sums[Streams * kVectors];
  for (Vec& sum : sums) sum = Vec::zero();
  const size_t part = bytes / Streams;
  for (size_t at = 0; at < part; at += kLine) {
    for (size_t s = 0; s < Streams; ++s) {
      const std::byte* line = data + s * part + at;
      if constexpr (Ahead > 0) __builtin_prefetch(line + Ahead);
      for (size_t v = 0; v < kVectors; ++v) {
        Vec& sum = sums[s * kVectors + v];
        sum = sum | Vec::load(line + v * Vec::kBytes);
      }
    }
  }
  uint64_t total = 0;
  for (const Vec& sum : sums) total |= sum.low();
  return total;
}

template <class Vec>
inline constexpr ReadPattern kReadPatterns[] = {
    {"one stream", read_streams<Vec, 1, 0>},
    {"one stream, prefetched 1 KiB ahead", read_streams<Vec, 1, 1024>},
    {"one stream, prefetched 4 KiB ahead", read_streams<Vec, 1, 4096>},
    {"two streams", read_streams<Vec, 2, 0>},
    {"four streams", read_streams<Vec, 4, 0>},
    {"four streams, prefetched 1 KiB ahead", read_streams<Vec, 4, 1024>},
};

}  // namespace
}  // namespace phidias
