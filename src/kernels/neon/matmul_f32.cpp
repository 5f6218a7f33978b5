#include "kernels/generic/matmul_f32.h"

#include "kernels/isa.h"
#include "kernels/neon/vec.h"

namespace phidias::neon {
namespace {

// A constant, so that no call of index_of is left even where nothing is optimised.
template <Format kFormat>
inline constexpr size_t kAt = index_of(kFormat);

}  // namespace

void fill_matmul_f32(KernelTable& table) {
  table.matmul_f32[kAt<Format::kF32>] = generic::matmul_plain<Vec, Vec::F32Rows>;
  table.matmul_f32[kAt<Format::kF16>] = generic::matmul_plain<Vec, Vec::F16Rows>;
  table.matmul_f32[kAt<Format::kBF16>] = generic::matmul_plain<Vec, Vec::BF16Rows>;
}

}  // namespace phidias::neon
