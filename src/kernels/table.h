// Arithmetic behind a table of functions, one table per instruction set. The scalar table is the
// definition of correct; each other table starts as a copy of the one below it and replaces what it
// does better.
//
// What every table promises:
//   order    a result depends on its own operands alone: not on how many rows or heads are computed
//   in the same
//            call, nor on how a call is split. Each function has one fixed order of arithmetic, the
//            same for one row and for many and for every table (order.h): all tables give the same
//            bits, NaN payloads aside.
//   memory   nothing is read outside the stated ranges (weights may end at a page border), nothing
//   allocated. threads  all functions are pure but for their outputs; calls on disjoint outputs may
//   run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/cpu.h"
#include "kernels/attention.h"
#include "kernels/kv_types.h"
#include "quant/format.h"

namespace phidias {

inline constexpr size_t kQuantGroup = 32;

// Rows of activations, quantized for integer products: groups of 32 values share a scale. A group
// that holds an outlier loses its small values to the one scale, so it has a second term for what
// the first left over: x = scale * value + second_scale * second_value. Dense: row r at r * cols
// and r * cols/32.
struct QuantizedRows {
  int8_t* values = nullptr;         // [rows, cols]
  float* scales = nullptr;          // [rows, cols/32]
  float* sums = nullptr;            // [rows, cols/32]: scale * (sum of the 32 values)
  int8_t* second_values = nullptr;  // [rows, cols], written only where there is a second term
  float* second_scales = nullptr;   // [rows, cols/32]; 0 where there is none, else finite
  float* second_sums = nullptr;     // [rows, cols/32]

  QuantizedRows from(size_t row, size_t cols) const {
    const size_t group = row * cols / kQuantGroup;
    return {values + row * cols,        scales + group,        sums + group,
            second_values + row * cols, second_scales + group, second_sums + group};
  }
};
// A group has a second term if its largest magnitude exceeds this many times the row's root mean
// square. Of normal values almost none do.
inline constexpr double kSecondTermRms = 7;

// y[r, o] = dot(x[r, :], W[o, :]) for o in [out_begin, out_end) and r in [0, rows).
//   weights  in the format of the table entry, any alignment: the tile of row o (FormatRow) starts
//            at weights + o / tile_rows * row_bytes
//   cols     a multiple of the format's block
//   y        element (r, o) at y[r * y_stride + o]; overlaps no input
struct MatmulArgs {
  const std::byte* weights = nullptr;
  size_t row_bytes = 0;  // of a tile, where a tile has several rows
  size_t cols = 0;
  size_t out_begin = 0;
  size_t out_end = 0;
  const float* x = nullptr;  // [rows, cols] at stride x_stride; what matmul_f32 reads
  size_t x_stride = 0;
  QuantizedRows q;                 // [rows, cols]; what matmul_q8 reads
  const uint16_t* bf16 = nullptr;  // [rows, cols] dense; what matmul_bf16 reads
  size_t rows = 0;
  float* y = nullptr;
  size_t y_stride = 0;
  float* scratch =
      nullptr;  // of the calling thread: matmul_scratch_floats(cols) floats, aligned to 64
};
using MatmulFn = void (*)(const MatmulArgs&);

// Floats of scratch a matmul call may use: totals and weights of a block of outputs, then room for
// decoded weight rows, or for the values and numbers of a block of activation rows.
inline constexpr size_t kScratchTotalsBytes = 224 * 1024;
inline constexpr size_t kScratchWeightRows = 104;
constexpr size_t matmul_scratch_floats(size_t cols) {
  return kScratchTotalsBytes / sizeof(float) +
         kScratchWeightRows * ((cols < 512 ? 512 : cols) + 64);
}

// totals[r, c] += sum over o of x[r, o] * weights[o, c], for c in [0, cols) and o in [0, outs).
// Products with transposed matrices are made of it; the caller cuts long sums (order.h).
//   weights  row o at weights + o * weight_stride
//   x        element (r, o) at x[r * row_stride + o * out_stride]: any view, a transposed one too
struct TransposedArgs {
  const float* weights = nullptr;
  size_t weight_stride = 0;
  size_t outs = 0;
  size_t cols = 0;
  const float* x = nullptr;
  size_t row_stride = 0;
  size_t out_stride = 1;
  size_t rows = 0;
  double* totals = nullptr;  // row r at totals + r * total_stride
  size_t total_stride = 0;
};

struct KernelTable {
  std::string_view name;  // "scalar", "avx2", "avx512_vnni"
  CpuFeatures required;   // all of these must be there before any function of the table is called

  // y[i] = w[i] * (x[i] / sqrt(mean(x^2) + eps)), one row; the mean in double. models.md: rms.
  void (*rms_norm)(const float* x, const float* weight, float eps, float* y, size_t n);
  // Half-split rotation in place of one head: pairs (i, i + half) for i < half; what follows is
  // left alone.
  //   cosine, sine [half], the magnitude already in them
  void (*rope)(float* head, const float* cosine, const float* sine, size_t half);
  // y[i] = up[i] * (gate[i] / (1 + exp(-gate[i])))
  void (*silu_mul)(const float* gate, const float* up, float* y, size_t n);
  // y[i] = (x[i] - mean) / sqrt(variance + eps) * weight[i] + bias[i], one row; mean and (biased)
  // variance in double.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, float* y,
                     size_t n);
  // y[i] = g * sigmoid(1.702 g) * (u + 1) with g = min(branches[2 i], limit) and u =
  // branches[2 i + 1] within -limit and limit; infinities pass the limit. models-other.md 4.
  void (*gegelu)(const float* branches, float limit, float* y, size_t n);
  // x[i] += y[i]
  void (*add)(float* x, const float* y, size_t n);
  // One row into int8 groups of 32: scale = max|x| / 127, round to nearest even; an all-zero group
  // has scale 0. The second term is the same of fma(-scale, value, x), in groups whose max|x|
  // exceeds kSecondTermRms * sqrt(mean(x^2)), the mean in double.
  //   n a multiple of 32
  void (*quantize_q8)(const float* x, const QuantizedRows& row, size_t n);
  // Largest value's index, lowest on ties; n > 0. NaN anywhere gives n.
  size_t (*argmax)(const float* x, size_t n);

  // Products with activations in f32: weights are decoded, never rounded further. Every format has
  // one. Chunks of 512 columns are summed in 16 float lanes, the chunks in double: nearer to exact
  // than one float chain.
  MatmulFn matmul_f32[kFormatCount];
  // Products with quantized activations, int32 inside a group, float across groups. Null where the
  // format is multiplied in f32 also in fast numerics (F32, F16, BF16).
  MatmulFn matmul_q8[kFormatCount];
  // Products of BF16 weights with activations rounded to bf16, for an even number of columns. Null
  // where the CPU has no instruction for it; which is why tables differ here (order.h).
  MatmulFn matmul_bf16;
  // One row to bf16, to nearest even; NaN stays NaN.
  void (*round_bf16)(const float* x, uint16_t* y, size_t n);

  // Explicit softmax: all scores of a query, their maximum, exponentials and sum, probabilities,
  // then the weighted values in key order. Everything in double; scores, probabilities and results
  // are each rounded to float once. For f32 caches.
  AttentionFn attention_exact;
  // Online softmax, one page at a time.
  AttentionFn attention[kKvTypeCount];
  // What attention_exact makes of the scores of one query, in order, so that both give the same
  // probabilities. scratch: count doubles, rounded up to a multiple of kDoubleLanes.
  void (*softmax)(const float* scores, double* scratch, float* probabilities, size_t count);
  // And its two other steps, likewise: scores[j] = dot(query, key j) * scale for j in [begin, end),
  // of keys that lie in f32 blocks as in a page (kv_types.h); and out[d] = sum of probabilities[j]
  // * values[j, d] over values [count, dim], ascending.
  void (*attention_scores)(const float* query, const float* keys, size_t dim, size_t begin,
                           size_t end, float scale, float* scores);
  void (*attention_mix)(const float* probabilities, const float* values, size_t dim, size_t count,
                        float* out);
  // A key or value into its slot of a page; same bits as KvTypeRow's.
  KvStoreFn store_key[kKvTypeCount];
  KvStoreFn store_value[kKvTypeCount];

  // For gradients.
  void (*add_transposed)(const TransposedArgs& args);
  // gradient[i] *= s (1 + gate[i] (1 - s)), s = 1 / (1 + exp(-gate[i])): the derivative of silu.
  void (*silu_gradient)(const float* gate, float* gradient, size_t n);
};

// Tables that this build has and this CPU can run, the plain one first, the best one last. Never
// empty.
std::span<const KernelTable* const> available_tables();
// All that this build has, also those this CPU cannot run: for "skipped" messages.
std::span<const KernelTable* const> compiled_tables();
const KernelTable& best_table();
// Null if there is none of that name, or if this CPU cannot run it.
const KernelTable* table_by_name(std::string_view name);

}  // namespace phidias
