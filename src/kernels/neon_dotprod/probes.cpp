#include "kernels/probes.h"

#include "kernels/neon/probes.h"

namespace phidias::neon_dotprod {
namespace {

struct Dot {
  static int32x4_t add(int32x4_t sum, int8x16_t weights, int8x16_t activations) {
    return vdotq_s32(sum, weights, activations);
  }
};

}  // namespace

constinit const MachineProbes kProbes = {
    kReadPatterns<neon::ProbeVec>,
    neon::kFmaProbe,
    {"sdot, 128 bits", 2.0 * neon::kChains * 16, neon::dot_rounds<Dot>}};

}  // namespace phidias::neon_dotprod
