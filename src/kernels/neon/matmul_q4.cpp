#include "kernels/neon/matmul_q4.h"

#include "kernels/isa.h"

namespace phidias::neon {

void fill_matmul_q4(KernelTable& table) { table.matmul_q8[kAt<Format::kQ4>] = matmul_q4<Integers>; }

}  // namespace phidias::neon
