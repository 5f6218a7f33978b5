#include "kernels/avx512/vec.h"
#include "kernels/generic/attention_table.h"
#include "kernels/isa.h"

namespace phidias::avx512_vnni {

void fill_attention(KernelTable& table) { generic::fill_attention<Vec>(table); }

}  // namespace phidias::avx512_vnni
