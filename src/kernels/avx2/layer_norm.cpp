#include "kernels/avx2/vec.h"
#include "kernels/generic/elementwise.h"
#include "kernels/isa.h"

namespace phidias::avx2 {

void fill_layer_norm(KernelTable& table) { table.layer_norm = generic::layer_norm<Vec>; }

}  // namespace phidias::avx2
