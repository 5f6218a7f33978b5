#include "kernels/generic/matmul_f32.h"

#include "kernels/isa.h"
#include "kernels/neon/fill.h"
#include "kernels/neon/unpack.h"

namespace phidias::neon {
namespace {

template <class F>
void matmul_blocks(const MatmulArgs& args) {
  const auto decode = [](const MatmulArgs& of, size_t out, size_t begin, size_t columns,
                         float* dst) {
    decode_row<F>(
        of.weights + out * of.row_bytes + begin / F::kBlockValues * sizeof(typename F::Block), dst,
        columns);
  };
  generic::matmul_f32<Vec, Vec::F32Rows, false>(args, decode);
}

void matmul_q4(const MatmulArgs& args) {
  const auto decode = [](const MatmulArgs& of, size_t out, size_t begin, size_t columns,
                         float* dst) {
    decode_q4(of.weights + out / Q4::kTileRows * of.row_bytes +
                  begin / Q4::kBlockValues * sizeof(Q4::Block),
              out % Q4::kTileRows, dst, columns);
  };
  generic::matmul_f32<Vec, Vec::F32Rows, false>(args, decode);
}

}  // namespace

void fill_matmul_f32(KernelTable& table) {
  table.matmul_f32[kAt<Format::kF32>] = generic::matmul_plain<Vec, Vec::F32Rows>;
  table.matmul_f32[kAt<Format::kF16>] = generic::matmul_plain<Vec, Vec::F16Rows>;
  table.matmul_f32[kAt<Format::kBF16>] = generic::matmul_plain<Vec, Vec::BF16Rows>;
  table.matmul_f32[kAt<Format::kQ8_0>] = matmul_blocks<Q8_0>;
  table.matmul_f32[kAt<Format::kQ4_0>] = matmul_blocks<Q4_0>;
  table.matmul_f32[kAt<Format::kQ4_1>] = matmul_blocks<Q4_1>;
  table.matmul_f32[kAt<Format::kQ5_0>] = matmul_blocks<Q5_0>;
  table.matmul_f32[kAt<Format::kQ5_1>] = matmul_blocks<Q5_1>;
  table.matmul_f32[kAt<Format::kQ4_K>] = matmul_blocks<Q4_K>;
  table.matmul_f32[kAt<Format::kQ5_K>] = matmul_blocks<Q5_K>;
  table.matmul_f32[kAt<Format::kQ6_K>] = matmul_blocks<Q6_K>;
  table.matmul_f32[kAt<Format::kQ4>] = matmul_q4;
}

}  // namespace phidias::neon
