#include "kernels/generic/attention_table.h"
#include "kernels/isa.h"
#include "kernels/neon/vec.h"

namespace phidias::neon {

void fill_attention(KernelTable& table) { generic::fill_attention<Vec>(table); }

}  // namespace phidias::neon
