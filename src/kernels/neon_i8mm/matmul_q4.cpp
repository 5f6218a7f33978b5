#include "kernels/neon/matmul_q4.h"

#include "kernels/isa.h"
#include "kernels/neon_i8mm/integers.h"

namespace phidias::neon_i8mm {

void fill_matmul_q4(KernelTable& table) {
  table.matmul_q8[kAt<Format::kQ4>] = neon::matmul_q4<Integers>;
}

}  // namespace phidias::neon_i8mm
