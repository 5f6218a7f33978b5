#include "kernels/probes.h"

#include "kernels/neon/probes.h"

namespace phidias::neon_i8mm {
namespace {

struct Dot {
  static int32x4_t add(int32x4_t sum, int8x16_t weights, int8x16_t activations) {
    return vmmlaq_s32(sum, weights, activations);
  }
};

}  // namespace

constinit const MachineProbes kProbes = {
    kReadPatterns<neon::ProbeVec>,
    neon::kFmaProbe,
    {"smmla, 128 bits", 2.0 * neon::kChains * 32, neon::dot_rounds<Dot>}};

}  // namespace phidias::neon_i8mm
