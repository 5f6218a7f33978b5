#include <cmath>
#include <cstring>

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
    format.decode_row(args.weights, o, args.scratch, args.cols);
    for (size_t r = 0; r < args.rows; ++r) {
      args.y[r * args.y_stride + o] = dot_f32(args.x + r * args.x_stride, args.scratch, args.cols);
    }
  }
}

template <typename F>
float dot_q8(const std::byte* weights, const int8_t* x, const float* scales, const float* sums,
             size_t cols) {
  float chains[kGroupChains] = {};
  for (size_t g = 0; g < cols / kQuantGroup; ++g) {
    const WeightGroup w = weight_group<F>(weights, g);
    int32_t half[2] = {};
    for (size_t i = 0; i < kQuantGroup; ++i) half[i / 16] += w.quants[i] * x[g * kQuantGroup + i];
    const int32_t sum = w.codes[0] * half[0] + w.codes[1] * half[1];
    float& chain = chains[g % kGroupChains];
    chain = std::fma(static_cast<float>(sum), w.scale * scales[g], chain);
    if (kHasMinimum<F>) chain = std::fma(w.minimum, sums[g], chain);
  }
  return fold(chains);
}

template <typename F>
void matmul_q8(const MatmulArgs& args) {
  const size_t groups = args.cols / kQuantGroup;
  for (size_t o = args.out_begin; o < args.out_end; ++o) {
    for (size_t r = 0; r < args.rows; ++r) {
      args.y[r * args.y_stride + o] =
          dot_q8<F>(args.weights + o * args.row_bytes, args.q.values + r * args.cols,
                    args.q.scales + r * groups, args.q.sums + r * groups, args.cols);
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
}

}  // namespace phidias::scalar
