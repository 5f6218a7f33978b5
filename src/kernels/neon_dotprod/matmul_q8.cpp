#include "kernels/neon/matmul_q8.h"

#include "kernels/isa.h"
#include "kernels/neon_dotprod/integers.h"

namespace phidias::neon_dotprod {

void fill_matmul_q8(KernelTable& table) { neon::fill_rows_q8<Integers>(table); }

}  // namespace phidias::neon_dotprod
