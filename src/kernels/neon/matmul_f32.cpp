#include "kernels/generic/matmul_f32_table.h"
#include "kernels/isa.h"
#include "kernels/neon/unpack.h"

namespace phidias::neon {
namespace {

struct Decoder {
  template <class F>
  static void row(const std::byte* row, float* dst, size_t cols) {
    decode_row<F>(row, dst, cols);
  }
  static void q4_row(const std::byte* tile, size_t row, float* dst, size_t cols) {
    decode_q4(tile, row, dst, cols);
  }
};

}  // namespace

void fill_matmul_f32(KernelTable& table) { generic::fill_matmul_f32<Vec, Decoder>(table); }

}  // namespace phidias::neon
