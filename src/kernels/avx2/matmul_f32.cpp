#include "kernels/x86/matmul_f32.h"
#include "kernels/avx2/vec.h"
#include "kernels/isa.h"

namespace phidias::avx2 {

void fill_matmul_f32(KernelTable& table) { generic::fill_matmul_f32<Vec, x86::Decoder>(table); }

}  // namespace phidias::avx2
