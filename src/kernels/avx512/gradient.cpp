#include "kernels/generic/gradient.h"
#include "kernels/avx512/vec.h"
#include "kernels/isa.h"

namespace phidias::avx512_vnni {

void fill_gradient(KernelTable& table) { generic::fill_gradient<Vec>(table); }

}  // namespace phidias::avx512_vnni
