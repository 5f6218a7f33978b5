// The bf16 kernel with a stand-in for the instruction, so that it can be tested where the CPU lacks
// it.
#pragma once

#include "kernels/table.h"

namespace phidias::test {

void stand_in_matmul_bf16(const MatmulArgs& args);

}  // namespace phidias::test
