// The one order of arithmetic that every table keeps, so that all tables give the same bits. A
// table may hold the lanes in registers of any width, several outputs at once or one; what is
// written here is what each single output goes through.
//
//   dot of floats (matmul_f32)
//     Columns are cut into chunks of kChunkColumns. In a chunk, column i is added to lane
//     i % kFloatLanes by a fused multiply-add, ascending. The lanes are folded in halves: lane l
//     takes lane l + 8, then l + 4, l + 2, l + 1. The chunks' totals are added in double,
//     ascending.
//   dot of bf16 rows (matmul_bf16)
//     As above with pairs of columns: pair p of a chunk of kChunkColumns pairs is added to lane
//     p % kFloatLanes, the odd column, then the even one, as the instruction does it. It takes
//     subnormal numbers for 0, and processors may differ in their last places: within one table, a
//     row's bits are its own.
//   dot of quantized rows (matmul_q8)
//     One chain from 0. Columns are cut into chunks of kChunkColumns; in each chunk first all
//     groups of 32 columns with their first terms, ascending, then those groups that have a second
//     term, ascending, with that. For each of them, with I the exact integer sum of the group:
//       chain = fma(float(I), weight_scale * row_scale, chain)
//       in formats with a minimum then chain = fma(minimum, row_sum, chain)
//     Where two groups share a scale and an offset (Q4), their first terms go together, and second
//     terms alone:
//       part = fma(float(I_b), row_scale_b, float(I_a) * row_scale_a), or float(I) * row_scale
//       part = fma(-offset, row_sum_a + row_sum_b, part), or with row_sum
//       chain = fma(part, weight_scale, chain)
//   sums over weight rows (add_transposed)
//     A chain of fused multiply-adds in float from 0, o ascending, is added to the total in double.
//     Whoever multiplies with a whole matrix cuts its rows into chunks of kChunkRows.
//   attention, online
//     A score is a chain of fused multiply-adds in float over the dimensions, ascending from 0,
//     then times the key's own scale if its type has one, then times the scale of the scores. A
//     page's weights are exp(score - largest so far); the weight of slot j is added to lane
//     j % kFloatLanes, ascending; the lanes are folded in halves. Sum and output are shrunk by
//     exp(previous largest - largest) before a page is added. An output is a chain of fused
//     multiply-adds over the keys, ascending; a value's own scale goes into its weight. Pages of
//     which nothing is seen are passed over.
//   attention_exact
//     The same chains in double for scores and outputs, the scores rounded to float.
//   sums of doubles (rms_norm, softmax, weights of attention_exact)
//     Element i is added to lane i % kDoubleLanes, ascending; the lanes are folded in halves.
//   exponentials
//     FloatExp and DoubleExp below, step for step.
#pragma once

#include <cstddef>

namespace phidias {

inline constexpr float kGegeluSlope = 1.702F;

inline constexpr size_t kFloatLanes = 16;
inline constexpr size_t kChunkColumns = 512;
inline constexpr size_t kChunkRows = 64;
inline constexpr size_t kDoubleLanes = 8;

// exp(x) in float, within 2 ulp: x = n ln 2 + r with n whole, then exp(r) = 1 + r + r^2 q(r) and a
// product with 2^n. Above kHighest it stays at exp(kHighest); below kLowest it is 0, so that no
// subnormal arises; NaN stays NaN. q is the polynomial of the Cephes library's expf.
struct FloatExp {
  static constexpr float kHighest = 88.0F;
  static constexpr float kLowest = -87.0F;
  static constexpr float kLog2e = 1.44269504F;
  static constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  static constexpr float kLn2High = 0.693359375F;
  static constexpr float kLn2Low = -2.12194440e-4F;
  static constexpr size_t kTerms = 6;
  static constexpr float kPolynomial[kTerms] = {1.9875691500e-4F, 1.3981999507e-3F,
                                                8.3334519073e-3F, 4.1665795894e-2F,
                                                1.6666665459e-1F, 5.0000001201e-1F};
};

// exp(x) in double for x <= 0, within 1 ulp; the same scheme with the Taylor polynomial of degree
// 13, whose remainder on |r| <= ln 2 / 2 is below 5e-18. Below kLowest it is 0.
struct DoubleExp {
  static constexpr double kLowest = -708.0;
  static constexpr double kLog2e = 1.4426950408889634;
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLn2High = 0.693147180369123816490;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
  static constexpr size_t kTerms = 14;
  static constexpr double kPolynomial[kTerms] = {1.0 / 6227020800,
                                                 1.0 / 479001600,
                                                 1.0 / 39916800,
                                                 1.0 / 3628800,
                                                 1.0 / 362880,
                                                 1.0 / 40320,
                                                 1.0 / 5040,
                                                 1.0 / 720,
                                                 1.0 / 120,
                                                 1.0 / 24,
                                                 1.0 / 6,
                                                 1.0 / 2,
                                                 1.0,
                                                 1.0};
};

}  // namespace phidias
