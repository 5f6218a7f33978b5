#include "kernels/neon/matmul_q8.h"

#include "kernels/isa.h"

namespace phidias::neon {

void fill_matmul_q8(KernelTable& table) { fill_rows_q8<Integers>(table); }

}  // namespace phidias::neon
