#include "kernels/generic/gradient.h"

#include "kernels/isa.h"
#include "kernels/neon/vec.h"

namespace phidias::neon {

void fill_gradient(KernelTable& table) { generic::fill_gradient<Vec>(table); }

}  // namespace phidias::neon
