#include "kernels/generic/matmul_f32.h"
#include "kernels/avx2/vec.h"
#include "kernels/isa.h"
#include "kernels/x86/fill.h"
#include "kernels/x86/unpack.h"

namespace phidias::avx2 {
namespace {

using namespace x86;

// Formats that are multiplied as they are stored, and widened to floats for many rows.
template <class Rows>
void matmul_plain(const MatmulArgs& args) {
  generic::matmul_f32<Vec, Rows, true>(args, [](const std::byte* row, float* dst, size_t cols) {
    size_t i = 0;
    for (; i + Vec::kLanes <= cols; i += Vec::kLanes) Vec::store(dst + i, Rows::load(row, i));
    if (i < cols) Vec::store_partial(dst + i, Rows::load_partial(row, i, cols - i), cols - i);
  });
}

template <class F>
void matmul_blocks(const MatmulArgs& args) {
  generic::matmul_f32<Vec, Vec::F32Rows, false>(args, decode_row<F>);
}

}  // namespace

void fill_matmul_f32(KernelTable& table) {
  table.matmul_f32[kAt<Format::kF32>] = matmul_plain<Vec::F32Rows>;
  table.matmul_f32[kAt<Format::kF16>] = matmul_plain<Vec::F16Rows>;
  table.matmul_f32[kAt<Format::kBF16>] = matmul_plain<Vec::BF16Rows>;
  table.matmul_f32[kAt<Format::kQ8_0>] = matmul_blocks<Q8_0>;
  table.matmul_f32[kAt<Format::kQ4_0>] = matmul_blocks<Q4_0>;
  table.matmul_f32[kAt<Format::kQ4_1>] = matmul_blocks<Q4_1>;
  table.matmul_f32[kAt<Format::kQ5_0>] = matmul_blocks<Q5_0>;
  table.matmul_f32[kAt<Format::kQ5_1>] = matmul_blocks<Q5_1>;
  table.matmul_f32[kAt<Format::kQ4_K>] = matmul_blocks<Q4_K>;
  table.matmul_f32[kAt<Format::kQ5_K>] = matmul_blocks<Q5_K>;
  table.matmul_f32[kAt<Format::kQ6_K>] = matmul_blocks<Q6_K>;
}

}  // namespace phidias::avx2
