#include "kernels/generic/kv_store.h"

#include "kernels/generic/runs.h"
#include "kernels/isa.h"
#include "kernels/neon/q8.h"
#include "kernels/q8_scale.h"

namespace phidias::neon {
namespace {

struct F16 {
  using Element = uint16_t;
  static void round(const float* src, Element* dst, size_t dim) {
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      vst1_u16(dst + i, vreinterpret_u16_f16(vcvt_f16_f32(generic::load<Vec>(src + i, n))));
    });
  }
};

struct BF16 {
  using Element = uint16_t;
  static void round(const float* src, Element* dst, size_t dim) {
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      const float32x4_t x = generic::load<Vec>(src + i, n);
      const uint32x4_t bits = vreinterpretq_u32_f32(x);
      const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
      const uint32x4_t nearest = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
      const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
      vst1_u16(dst + i, vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), nearest, quiet), 16));
    });
  }
};

struct Q8 {
  using Element = int8_t;
  static float round(const float* src, int8_t* dst, size_t dim) {
    uint32x4_t most = vdupq_n_u32(0);
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      most = vmaxq_u32(most, magnitude_bits(generic::load<Vec>(src + i, n)));
    });
    const float scale = q8_scale(largest_of(most));
    const float inverse = q8_inverse(scale);
    generic::each_run<Vec>(dim, [&](size_t i, size_t n) {
      const int32x4_t whole = q8_round(generic::load<Vec>(src + i, n), inverse);
      vst1_s8(dst + i, narrow(whole, whole));
    });
    return scale;
  }
};

}  // namespace

void fill_kv_store(KernelTable& table) { generic::fill_kv_store<Vec, F16, BF16, Q8>(table); }

}  // namespace phidias::neon
