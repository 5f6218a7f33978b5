#include "kernels/neon/matmul_q4.h"

#include "kernels/isa.h"
#include "kernels/neon_dotprod/integers.h"

namespace phidias::neon_dotprod {

void fill_matmul_q4(KernelTable& table) {
  table.matmul_q8[kAt<Format::kQ4>] = neon::matmul_q4<Integers>;
}

}  // namespace phidias::neon_dotprod
