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

// out[a * kRight + b] = the folded lanes of left row a, from its float `offset` on, times right row
// b over `columns` columns, at most kChunkColumns.
// With fewer lanes than kFloatLanes the columns are walked in several passes, each of which keeps
// one register for each pair of rows: the order of order.h in the registers at hand.
template <class V, class Rows, size_t kLeft, size_t kRight>
[[gnu::always_inline]] inline void dot_chunk(const std::byte* left, size_t left_bytes,
                                             size_t offset, const float* right, size_t right_stride,
                                             size_t columns, float* out) {
  using Floats = typename V::Floats;
  constexpr size_t kPairs = kLeft * kRight;
  constexpr size_t kPasses = kFloatLanes / V::kLanes;
  static_assert(kPasses == 1 || kPasses == 2 || kPasses == 4);
  Floats sums[kPairs];
  [[maybe_unused]] Floats odd[kPairs];  // of passes 2 and 3, where there are so many
  for (size_t pass = 0; pass < kPasses; ++pass) {
    Floats lanes[kPairs];
#pragma GCC unroll 32
    for (size_t i = 0; i < kPairs; ++i) lanes[i] = V::zero();
    // Folded in halves, a quarter goes with the one after the next: 0, 2, then 1, 3.
    const size_t quarter = kPasses == 4 ? (pass % 2) * 2 + pass / 2 : pass;
    size_t column = quarter * V::kLanes;
    for (; column + V::kLanes <= columns; column += kFloatLanes) {
      Floats x[kRight];
#pragma GCC unroll 8
      for (size_t b = 0; b < kRight; ++b) x[b] = V::load(right + b * right_stride + column);
#pragma GCC unroll 8
      for (size_t a = 0; a < kLeft; ++a) {
        const Floats w = Rows::load(left + a * left_bytes, offset + column);
#pragma GCC unroll 8
        for (size_t b = 0; b < kRight; ++b) {
          lanes[a * kRight + b] = V::fma(w, x[b], lanes[a * kRight + b]);
        }
      }
    }
    if (column < columns) {
      const size_t rest = columns - column;
#pragma GCC unroll 8
      for (size_t a = 0; a < kLeft; ++a) {
        const Floats w = Rows::load_partial(left + a * left_bytes, offset + column, rest);
#pragma GCC unroll 8
        for (size_t b = 0; b < kRight; ++b) {
          const Floats x = V::load_partial(right + b * right_stride + column, rest);
          lanes[a * kRight + b] = V::fma(w, x, lanes[a * kRight + b]);
        }
      }
    }
#pragma GCC unroll 32
    for (size_t i = 0; i < kPairs; ++i) {
      if constexpr (kPasses == 4) {
        Floats& sum = pass < 2 ? sums[i] : odd[i];
        sum = pass % 2 == 0 ? lanes[i] : V::add(sum, lanes[i]);
      } else {
        sums[i] = pass == 0 ? lanes[i] : V::add(sums[i], lanes[i]);
      }
    }
  }
  if constexpr (kPasses == 4) {
    for (size_t i = 0; i < kPairs; ++i) sums[i] = V::add(sums[i], odd[i]);
  }
#pragma GCC unroll 8
  for (size_t i = 0; i + 8 <= kPairs; i += 8) V::fold8(sums + i, out + i);
#pragma GCC unroll 4
  for (size_t i = kPairs / 8 * 8; i < kPairs; ++i) out[i] = V::fold(sums[i]);
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
