// The float products of a table, over its vector type and its ways of decoding blocks.
#pragma once

#include "kernels/generic/matmul_f32.h"
#include "kernels/places.h"
#include "quant/q4.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace phidias::generic {

template <class V, class D, class F>
void matmul_blocks(const MatmulArgs& args) {
  const auto decode = [](const MatmulArgs& of, size_t out, size_t begin, size_t columns,
                         float* dst) {
    D::template row<F>(
        of.weights + out * of.row_bytes + begin / F::kBlockValues * sizeof(typename F::Block), dst,
        columns);
  };
  matmul_f32<V, typename V::F32Rows, false>(args, decode);
}

template <class V, class D>
void matmul_q4(const MatmulArgs& args) {
  const auto decode = [](const MatmulArgs& of, size_t out, size_t begin, size_t columns,
                         float* dst) {
    D::q4_row(of.weights + out / Q4::kTileRows * of.row_bytes +
                  begin / Q4::kBlockValues * sizeof(Q4::Block),
              out % Q4::kTileRows, dst, columns);
  };
  matmul_f32<V, typename V::F32Rows, false>(args, decode);
}

// D decodes, to the same values as the formats do:
//   row<F>(row, dst, cols)          a row of blocks of F
//   q4_row(tile, row, dst, cols)    row `row` of a tile of Q4
template <class V, class D>
[[gnu::always_inline]] inline void fill_matmul_f32(KernelTable& table) {
  table.matmul_f32[kAt<Format::kF32>] = matmul_plain<V, typename V::F32Rows>;
  table.matmul_f32[kAt<Format::kF16>] = matmul_plain<V, typename V::F16Rows>;
  table.matmul_f32[kAt<Format::kBF16>] = matmul_plain<V, typename V::BF16Rows>;
  table.matmul_f32[kAt<Format::kQ8_0>] = matmul_blocks<V, D, Q8_0>;
  table.matmul_f32[kAt<Format::kQ4_0>] = matmul_blocks<V, D, Q4_0>;
  table.matmul_f32[kAt<Format::kQ4_1>] = matmul_blocks<V, D, Q4_1>;
  table.matmul_f32[kAt<Format::kQ5_0>] = matmul_blocks<V, D, Q5_0>;
  table.matmul_f32[kAt<Format::kQ5_1>] = matmul_blocks<V, D, Q5_1>;
  table.matmul_f32[kAt<Format::kQ4_K>] = matmul_blocks<V, D, Q4_K>;
  table.matmul_f32[kAt<Format::kQ5_K>] = matmul_blocks<V, D, Q5_K>;
  table.matmul_f32[kAt<Format::kQ6_K>] = matmul_blocks<V, D, Q6_K>;
  table.matmul_f32[kAt<Format::kQ4>] = matmul_q4<V, D>;
}

}  // namespace phidias::generic
