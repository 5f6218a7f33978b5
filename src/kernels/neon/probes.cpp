#include "kernels/probes.h"

#include "kernels/neon/probes.h"

namespace phidias::neon {
namespace {

struct Dot {
  static int32x4_t add(int32x4_t sum, int8x16_t weights, int8x16_t activations) {
    const int16x8_t products = vmull_s8(vget_low_s8(weights), vget_low_s8(activations));
    return vpadalq_s16(sum, vmlal_high_s8(products, weights, activations));
  }
};

}  // namespace

constinit const MachineProbes kProbes = {
    kReadPatterns<neon::ProbeVec>,
    neon::kFmaProbe,
    {"smull, smlal and sadalp, 128 bits", 2.0 * neon::kChains * 16, neon::dot_rounds<Dot>}};

}  // namespace phidias::neon
