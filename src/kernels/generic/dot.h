// Dot products of several rows with several rows, over a vector type V of an instruction set.
//
// The files of this folder hold templates alone, and each is used with a V from an anonymous
// namespace: what they become is local to the object file, and no other file can end up with code
// for instructions that its CPU may lack.
//
// V has kLanes floats in V::Floats (a divisor of kFloatLanes) and the operations used below. A type
// of stored row, Rows, has
//   Floats load(const std::byte* row, size_t i)                  floats i to i + kLanes
//   Floats load_partial(const std::byte* row, size_t i, size_t n)  n < kLanes of them, the rest 0
#pragma once

#include <cstddef>

#include "kernels/order.h"

namespace phidias::generic {

// lanes [kWidth][kLeft * kRight]: the lanes from `first` on of all pairs of rows, kWidth registers
// for each pair.
template <class V, class Rows, size_t kLeft, size_t kRight, size_t kWidth>
[[gnu::always_inline]] inline void add_columns(const std::byte* left, size_t left_bytes,
                                               size_t offset, const float* right,
                                               size_t right_stride, size_t first, size_t columns,
                                               typename V::Floats* lanes) {
  using Floats = typename V::Floats;
  constexpr size_t kPairs = kLeft * kRight;
#pragma GCC unroll 32
  for (size_t i = 0; i < kWidth * kPairs; ++i) lanes[i] = V::zero();
  size_t column = first;
  for (; column + kWidth * V::kLanes <= columns; column += kFloatLanes) {
#pragma GCC unroll 4
    for (size_t part = 0; part < kWidth; ++part) {
      const size_t at = column + part * V::kLanes;
      Floats x[kRight];
#pragma GCC unroll 8
      for (size_t b = 0; b < kRight; ++b) x[b] = V::load(right + b * right_stride + at);
#pragma GCC unroll 8
      for (size_t a = 0; a < kLeft; ++a) {
        const Floats w = Rows::load(left + a * left_bytes, offset + at);
#pragma GCC unroll 8
        for (size_t b = 0; b < kRight; ++b) {
          Floats& lane = lanes[part * kPairs + a * kRight + b];
          lane = V::fma(w, x[b], lane);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (size_t part = 0; part < kWidth; ++part) {
    const size_t at = column + part * V::kLanes;
    if (at >= columns) break;
    const size_t rest = columns - at < V::kLanes ? columns - at : V::kLanes;
#pragma GCC unroll 8
    for (size_t a = 0; a < kLeft; ++a) {
      const Floats w = Rows::load_partial(left + a * left_bytes, offset + at, rest);
#pragma GCC unroll 8
      for (size_t b = 0; b < kRight; ++b) {
        Floats& lane = lanes[part * kPairs + a * kRight + b];
        lane = V::fma(w, V::load_partial(right + b * right_stride + at, rest), lane);
      }
    }
  }
}

// out[a * kRight + b] = the folded lanes of left row a, from its float `offset` on, times right row
// b over `columns` columns, at most kChunkColumns.
// With fewer lanes in a register than kFloatLanes a pair of rows has several: side by side where
// there are registers enough, else the columns are walked once for each.
template <class V, class Rows, size_t kLeft, size_t kRight>
[[gnu::always_inline]] inline void dot_chunk(const std::byte* left, size_t left_bytes,
                                             size_t offset, const float* right, size_t right_stride,
                                             size_t columns, float* out) {
  using Floats = typename V::Floats;
  constexpr size_t kPairs = kLeft * kRight;
  constexpr size_t kParts = kFloatLanes / V::kLanes;
  static_assert(kParts == 1 || kParts == 2 || kParts == 4);
  constexpr size_t kWidth = kParts * kPairs <= V::kSums ? kParts : 1;
  Floats lanes[kParts][kPairs];
#pragma GCC unroll 4
  for (size_t part = 0; part < kParts; part += kWidth) {
    add_columns<V, Rows, kLeft, kRight, kWidth>(left, left_bytes, offset, right, right_stride,
                                                part * V::kLanes, columns, lanes[part]);
  }
  // In halves: a quarter goes with the one after the next.
#pragma GCC unroll 2
  for (size_t half = kParts / 2; half > 0; half /= 2) {
#pragma GCC unroll 2
    for (size_t part = 0; part < half; ++part) {
#pragma GCC unroll 32
      for (size_t i = 0; i < kPairs; ++i) {
        lanes[part][i] = V::add(lanes[part][i], lanes[part + half][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (size_t i = 0; i + 8 <= kPairs; i += 8) V::fold8(lanes[0] + i, out + i);
#pragma GCC unroll 4
  for (size_t i = kPairs / 8 * 8; i < kPairs; ++i) out[i] = V::fold(lanes[0][i]);
}

template <size_t kNumber>
struct Constant {
  static constexpr size_t kValue = kNumber;
};

// Calls f with n, which is 1 to kMost, as a constant.
template <size_t kMost, class F>
[[gnu::always_inline]] inline void with_constant(size_t n, F&& f) {
  if constexpr (kMost > 1) {
    if (n < kMost) {
      with_constant<kMost - 1>(n, f);
      return;
    }
  }
  f(Constant<kMost>{});
}

}  // namespace phidias::generic
