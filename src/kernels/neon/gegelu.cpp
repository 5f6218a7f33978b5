#include "kernels/generic/exp.h"
#include "kernels/generic/runs.h"
#include "kernels/isa.h"
#include "kernels/neon/vec.h"

namespace phidias::neon {
namespace {

// Infinities pass a limit; NaN fails every comparison and stays.
[[gnu::always_inline]] inline float32x4_t clamp_above(float32x4_t x, float32x4_t limit) {
  const uint32x4_t finite = vcltq_f32(x, Vec::set(__builtin_inff()));
  return vbslq_f32(vandq_u32(vcgtq_f32(x, limit), finite), limit, x);
}
[[gnu::always_inline]] inline float32x4_t clamp_below(float32x4_t x, float32x4_t limit) {
  const uint32x4_t finite = vcgtq_f32(x, Vec::set(-__builtin_inff()));
  return vbslq_f32(vandq_u32(vcltq_f32(x, limit), finite), limit, x);
}

// 4 results from 8 floats, gate and up in turn.
[[gnu::always_inline]] inline float32x4_t activate(const float* branches, float32x4_t limit,
                                                   float32x4_t lower_limit) {
  const float32x4x2_t both = vld2q_f32(branches);
  const float32x4_t one = Vec::set(1.0F);
  const float32x4_t gate = clamp_above(both.val[0], limit);
  const float32x4_t up = clamp_below(clamp_above(both.val[1], limit), lower_limit);
  const float32x4_t x = Vec::mul(Vec::set(kGegeluSlope), gate);
  const float32x4_t e = generic::exp_floats<Vec>(vnegq_f32(vabsq_f32(x)));
  const float32x4_t above = vbslq_f32(vcgezq_f32(x), one, e);
  const float32x4_t sigmoid = Vec::div(above, Vec::add(one, e));
  return Vec::mul(Vec::mul(gate, sigmoid), Vec::add(up, one));
}

void gegelu(const float* branches, float limit, float* y, size_t count) {
  const float32x4_t upper = Vec::set(limit);
  const float32x4_t lower = Vec::set(-limit);
  generic::each_run<Vec>(count, [&](size_t i, size_t n) {
    if (n == Vec::kLanes) {
      Vec::store(y + i, activate(branches + 2 * i, upper, lower));
      return;
    }
    float rest[2 * Vec::kLanes] = {};
    std::memcpy(rest, branches + 2 * i, 2 * n * sizeof(float));
    Vec::store_partial(y + i, activate(rest, upper, lower), n);
  });
}

}  // namespace

void fill_gegelu(KernelTable& table) { table.gegelu = gegelu; }

}  // namespace phidias::neon
