#include "kernels/avx2/vec.h"
#include "kernels/generic/attention_table.h"
#include "kernels/isa.h"

namespace phidias::avx2 {

void fill_attention(KernelTable& table) { generic::fill_attention<Vec>(table); }

}  // namespace phidias::avx2
