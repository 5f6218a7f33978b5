#include "kernels/generic/elementwise.h"
#include "kernels/isa.h"
#include "kernels/neon/vec.h"

namespace phidias::neon {

void fill_layer_norm(KernelTable& table) { table.layer_norm = generic::layer_norm<Vec>; }

}  // namespace phidias::neon
