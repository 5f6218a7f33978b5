#include "kernels/generic/matmul_f32.h"

#include "kernels/isa.h"
#include "kernels/neon/vec.h"

namespace phidias::neon {
namespace {

// Formats that are multiplied as they are stored, and widened to floats for many rows.
template <class Rows>
void matmul_plain(const MatmulArgs& args) {
  const auto widen = [](const MatmulArgs& of, size_t out, size_t begin, size_t columns,
                        float* dst) {
    const std::byte* row = of.weights + out * of.row_bytes;
    size_t i = 0;
    for (; i + Vec::kLanes <= columns; i += Vec::kLanes) {
      Vec::store(dst + i, Rows::load(row, begin + i));
    }
    if (i < columns) {
      Vec::store_partial(dst + i, Rows::load_partial(row, begin + i, columns - i), columns - i);
    }
  };
  generic::matmul_f32<Vec, Rows, true>(args, widen);
}

// A constant, so that no call of index_of is left even where nothing is optimised.
template <Format kFormat>
inline constexpr size_t kAt = index_of(kFormat);

}  // namespace

void fill_matmul_f32(KernelTable& table) {
  table.matmul_f32[kAt<Format::kF32>] = matmul_plain<Vec::F32Rows>;
  table.matmul_f32[kAt<Format::kF16>] = matmul_plain<Vec::F16Rows>;
  table.matmul_f32[kAt<Format::kBF16>] = matmul_plain<Vec::BF16Rows>;
}

}  // namespace phidias::neon
