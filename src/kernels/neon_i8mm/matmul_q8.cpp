#include "kernels/neon/matmul_q8.h"

#include "kernels/isa.h"
#include "kernels/neon_i8mm/integers.h"

namespace phidias::neon_i8mm {

void fill_matmul_q8(KernelTable& table) { neon::fill_rows_q8<Integers>(table); }

}  // namespace phidias::neon_i8mm
