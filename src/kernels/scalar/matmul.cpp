#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/scalar/groups.h"
#include "kernels/scalar/math.h"
#include "kernels/scalar/scalar.h"

namespace phidias::scalar {
namespace {

float dot_f32(const float* x, const float* w, size_t cols) {
  double total = 0;
  for (size_t begin = 0; begin < cols; begin += kChunkColumns) {
    const size_t end = begin + kChunkColumns < cols ? begin + kChunkColumns : cols;
    float lanes[kFloatLanes] = {};
    for (size_t i = begin; i < end; ++i) {
      float& lane = lanes[i % kFloatLanes];
      lane = std::fma(w[i], x[i], lane);
    }
    total += static_cast<double>(fold(lanes));
  }
  return static_cast<float>(total);
}

template <Format kFormat>
void matmul_f32(const MatmulArgs& args) {
  const FormatRow& format = format_row(kFormat);
  for (size_t o = args.out_begin; o < args.out_end; ++o) {
    format.decode_tile_row(args.weights + o / format.tile_rows * args.row_bytes,
                           o % format.tile_rows, args.scratch, args.cols);
    for (size_t r = 0; r < args.rows; ++r) {
      args.y[r * args.y_stride + o] = dot_f32(args.x + r * args.x_stride, args.scratch, args.cols);
    }
  }
}

int32_t integer_sum(const WeightGroup& w, const int8_t* x) {
  int32_t half[2] = {};
  for (size_t i = 0; i < kQuantGroup; ++i) half[i / 16] += w.quants[i] * x[i];
  return w.codes[0] * half[0] + w.codes[1] * half[1];
}

// Calls first(g) for the groups of each chunk of columns, then second(g) for those of them that
// have a second term.
template <class First, class Second>
void for_each_term(const QuantizedRows& x, size_t cols, First first, Second second) {
  constexpr size_t kChunkGroups = kChunkColumns / kQuantGroup;
  for (size_t begin = 0; begin < cols / kQuantGroup; begin += kChunkGroups) {
    const size_t end = std::min(begin + kChunkGroups, cols / kQuantGroup);
    for (size_t g = begin; g < end; ++g) first(g);
    for (size_t g = begin; g < end; ++g) {
      if (x.second_scales[g] != 0) second(g);
    }
  }
}

template <typename F>
float dot_q8(const std::byte* weights, const QuantizedRows& x, size_t cols) {
  float chain = 0;
  const auto add = [&](size_t g, const int8_t* values, const float* scales, const float* sums) {
    const WeightGroup w = weight_group<F>(weights, g);
    const float integer = static_cast<float>(integer_sum(w, values + g * kQuantGroup));
    chain = std::fma(integer, w.scale * scales[g], chain);
    if (kHasMinimum<F>) chain = std::fma(w.minimum, sums[g], chain);
  };
  for_each_term(
      x, cols, [&](size_t g) { add(g, x.values, x.scales, x.sums); },
      [&](size_t g) { add(g, x.second_values, x.second_scales, x.second_sums); });
  return chain;
}

float dot_q4(const std::byte* tile, size_t row, const QuantizedRows& x, size_t cols) {
  float chain = 0;
  const auto integer = [&](size_t g, const int8_t* values) {
    return static_cast<float>(integer_sum(q4_group(tile, row, g), values + g * kQuantGroup));
  };
  const auto add = [&](size_t g, float part, float sum) {
    const WeightGroup w = q4_group(tile, row, g);
    chain = std::fma(std::fma(w.minimum, sum, part), w.scale, chain);
  };
  for_each_term(
      x, cols,
      [&](size_t g) {
        if (g % 2 != 0) return;
        const float part = integer(g, x.values) * x.scales[g];
        add(g, std::fma(integer(g + 1, x.values), x.scales[g + 1], part),
            x.sums[g] + x.sums[g + 1]);
      },
      [&](size_t g) {
        add(g, integer(g, x.second_values) * x.second_scales[g], x.second_sums[g]);
      });
  return chain;
}

template <typename F>
void matmul_q8(const MatmulArgs& args) {
  for (size_t o = args.out_begin; o < args.out_end; ++o) {
    for (size_t r = 0; r < args.rows; ++r) {
      float& y = args.y[r * args.y_stride + o];
      if constexpr (std::is_same_v<F, Q4>) {
        y = dot_q4(args.weights + o / Q4::kTileRows * args.row_bytes, o % Q4::kTileRows,
                   args.q.from(r, args.cols), args.cols);
      } else {
        y = dot_q8<F>(args.weights + o * args.row_bytes, args.q.from(r, args.cols), args.cols);
      }
    }
  }
}

}  // namespace

void fill_matmul(KernelTable& table) {
  table.matmul_f32[index_of(Format::kF32)] = matmul_f32<Format::kF32>;
  table.matmul_f32[index_of(Format::kF16)] = matmul_f32<Format::kF16>;
  table.matmul_f32[index_of(Format::kBF16)] = matmul_f32<Format::kBF16>;
  table.matmul_f32[index_of(Format::kQ8_0)] = matmul_f32<Format::kQ8_0>;
  table.matmul_f32[index_of(Format::kQ4_0)] = matmul_f32<Format::kQ4_0>;
  table.matmul_f32[index_of(Format::kQ4_1)] = matmul_f32<Format::kQ4_1>;
  table.matmul_f32[index_of(Format::kQ5_0)] = matmul_f32<Format::kQ5_0>;
  table.matmul_f32[index_of(Format::kQ5_1)] = matmul_f32<Format::kQ5_1>;
  table.matmul_f32[index_of(Format::kQ4_K)] = matmul_f32<Format::kQ4_K>;
  table.matmul_f32[index_of(Format::kQ5_K)] = matmul_f32<Format::kQ5_K>;
  table.matmul_f32[index_of(Format::kQ6_K)] = matmul_f32<Format::kQ6_K>;
  table.matmul_f32[index_of(Format::kQ4)] = matmul_f32<Format::kQ4>;

  table.matmul_q8[index_of(Format::kQ8_0)] = matmul_q8<Q8_0>;
  table.matmul_q8[index_of(Format::kQ4_0)] = matmul_q8<Q4_0>;
  table.matmul_q8[index_of(Format::kQ4_1)] = matmul_q8<Q4_1>;
  table.matmul_q8[index_of(Format::kQ5_0)] = matmul_q8<Q5_0>;
  table.matmul_q8[index_of(Format::kQ5_1)] = matmul_q8<Q5_1>;
  table.matmul_q8[index_of(Format::kQ4_K)] = matmul_q8<Q4_K>;
  table.matmul_q8[index_of(Format::kQ5_K)] = matmul_q8<Q5_K>;
  table.matmul_q8[index_of(Format::kQ6_K)] = matmul_q8<Q6_K>;
  table.matmul_q8[index_of(Format::kQ4)] = matmul_q8<Q4>;
}

}  // namespace phidias::scalar
