#include "kernels/generic/gradient.h"
#include "kernels/avx2/vec.h"
#include "kernels/isa.h"

namespace phidias::avx2 {

void fill_gradient(KernelTable& table) { generic::fill_gradient<Vec>(table); }

}  // namespace phidias::avx2
