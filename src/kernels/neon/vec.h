// 4 floats in a register: a quarter of the lanes that the order of arithmetic has.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace phidias::neon {
namespace {

struct Vec {
  using Floats = float32x4_t;
  static constexpr size_t kLanes = 4;
  // 16 sums, 4 activations and a weight of the 32 registers; 8 loads feed 16 multiply-adds.
  static constexpr size_t kLeftRows = 4;
  static constexpr size_t kRightRows = 4;
  // Sums that are kept in registers at once.
  static constexpr size_t kSums = 24;

  static Floats zero() { return vdupq_n_f32(0); }
  static Floats set(float x) { return vdupq_n_f32(x); }
  static Floats load(const float* p) { return vld1q_f32(p); }
  static Floats load_partial(const float* p, size_t n) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, p, n * sizeof(float));
    return vld1q_f32(lanes);
  }
  static void store(float* p, Floats x) { vst1q_f32(p, x); }
  static void store_partial(float* p, Floats x, size_t n) {
    float lanes[kLanes];
    vst1q_f32(lanes, x);
    std::memcpy(p, lanes, n * sizeof(float));
  }
  static Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
  static Floats sub(Floats a, Floats b) { return vsubq_f32(a, b); }
  static Floats mul(Floats a, Floats b) { return vmulq_f32(a, b); }
  static Floats div(Floats a, Floats b) { return vdivq_f32(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  static Floats negative(Floats x) { return vnegq_f32(x); }
  // b where either is NaN.
  static Floats max(Floats a, Floats b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static Floats min(Floats a, Floats b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static Floats zero_if_less(Floats x, Floats limit, Floats value) {
    return vbslq_f32(vcltq_f32(x, limit), zero(), value);
  }
  // -infinity where the lane's bit is not set.
  static Floats hide(Floats x, uint32_t seen) {
    const uint32_t bits[kLanes] = {1, 2, 4, 8};
    const uint32x4_t is_seen = vtstq_u32(vdupq_n_u32(seen), vld1q_u32(bits));
    return vbslq_f32(is_seen, x, set(-__builtin_inff()));
  }
  // 2^n of a float that holds n + FloatExp::kRound.
  static Floats power_of_shifted(Floats shifted) {
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23);
    return vreinterpretq_f32_u32(vaddq_u32(exponent, vdupq_n_u32(0x3F800000)));
  }

  static float fold(Floats x) {
    const float32x2_t by2 = vadd_f32(vget_low_f32(x), vget_high_f32(x));
    return vget_lane_f32(by2, 0) + vget_lane_f32(by2, 1);
  }
  // Four folds at once: first the halves of two registers, then neighbours.
  static Floats fold4(const Floats* x) {
    const auto halves = [](Floats a, Floats b) {
      return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)),
                       vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
    };
    return vpaddq_f32(halves(x[0], x[1]), halves(x[2], x[3]));
  }
  static void fold8(const Floats* x, float* out) {
    vst1q_f32(out, fold4(x));
    vst1q_f32(out + kLanes, fold4(x + 4));
  }
  static float largest(Floats x) {
    float lanes[kLanes];
    vst1q_f32(lanes, x);
    float most = lanes[0];
    for (size_t l = 1; l < kLanes; ++l) most = lanes[l] > most ? lanes[l] : most;
    return most;
  }

  struct F32Rows {
    static Floats load(const std::byte* row, size_t i) {
      return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(row + 4 * i)));
    }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      float lanes[kLanes] = {};
      std::memcpy(lanes, row + 4 * i, n * sizeof(float));
      return vld1q_f32(lanes);
    }
  };
  struct F16Rows {
    static Floats widen(uint8x8_t halves) { return vcvt_f32_f16(vreinterpret_f16_u8(halves)); }
    static Floats load(const std::byte* row, size_t i) { return widen(load_bytes(row + 2 * i)); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return widen(load_bytes(row + 2 * i, 2 * n));
    }
  };
  struct BF16Rows {
    static Floats widen(uint8x8_t halves) {
      return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(halves), 16));
    }
    static Floats load(const std::byte* row, size_t i) { return widen(load_bytes(row + 2 * i)); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      return widen(load_bytes(row + 2 * i, 2 * n));
    }
  };
  struct Int8Rows {
    static Floats load(const std::byte* row, size_t i) { return load_partial(row, i, kLanes); }
    static Floats load_partial(const std::byte* row, size_t i, size_t n) {
      uint32_t bytes = 0;
      std::memcpy(&bytes, row + i, n);
      const int16x8_t words = vmovl_s8(vcreate_s8(bytes));
      return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
    }
  };

  // 8 doubles in four registers.
  struct Doubles {
    float64x2_t parts[4];
  };
  template <class F>
  static Doubles each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static Doubles zero_f64() { return set_f64(0); }
  static Doubles set_f64(double x) {
    return each([&](size_t) { return vdupq_n_f64(x); });
  }
  static Doubles load_f64(const double* p) {
    return each([&](size_t i) { return vld1q_f64(p + 2 * i); });
  }
  static void store_f64(double* p, Doubles x) {
    for (size_t i = 0; i < 4; ++i) vst1q_f64(p + 2 * i, x.parts[i]);
  }
  static Doubles widen(const float* p) {
    return each([&](size_t i) { return vcvt_f64_f32(vld1_f32(p + 2 * i)); });
  }
  static Doubles widen_partial(const float* p, size_t n) {
    float lanes[8] = {};
    std::memcpy(lanes, p, n * sizeof(float));
    return widen(lanes);
  }
  static void narrow_partial(float* p, Doubles x, size_t n) {
    float lanes[8];
    for (size_t i = 0; i < 4; ++i) vst1_f32(lanes + 2 * i, vcvt_f32_f64(x.parts[i]));
    std::memcpy(p, lanes, n * sizeof(float));
  }
  // Rounded to float and back.
  static Doubles as_float(Doubles x) {
    return each([&](size_t i) { return vcvt_f64_f32(vcvt_f32_f64(x.parts[i])); });
  }
  static Doubles add(Doubles a, Doubles b) {
    return each([&](size_t i) { return vaddq_f64(a.parts[i], b.parts[i]); });
  }
  static Doubles sub(Doubles a, Doubles b) {
    return each([&](size_t i) { return vsubq_f64(a.parts[i], b.parts[i]); });
  }
  static Doubles mul(Doubles a, Doubles b) {
    return each([&](size_t i) { return vmulq_f64(a.parts[i], b.parts[i]); });
  }
  static Doubles div(Doubles a, Doubles b) {
    return each([&](size_t i) { return vdivq_f64(a.parts[i], b.parts[i]); });
  }
  static Doubles fma(Doubles a, Doubles b, Doubles c) {
    return each([&](size_t i) { return vfmaq_f64(c.parts[i], a.parts[i], b.parts[i]); });
  }
  static Doubles zero_if_less(Doubles x, Doubles limit, Doubles value) {
    return each([&](size_t i) {
      return vbslq_f64(vcltq_f64(x.parts[i], limit.parts[i]), vdupq_n_f64(0), value.parts[i]);
    });
  }
  static Doubles power_of_shifted(Doubles shifted) {
    return each([&](size_t i) {
      const uint64x2_t exponent = vshlq_n_u64(vreinterpretq_u64_f64(shifted.parts[i]), 52);
      return vreinterpretq_f64_u64(vaddq_u64(exponent, vdupq_n_u64(0x3FF0000000000000)));
    });
  }
  static double fold(Doubles x) {
    const float64x2_t by4[2] = {vaddq_f64(x.parts[0], x.parts[2]),
                                vaddq_f64(x.parts[1], x.parts[3])};
    const float64x2_t by2 = vaddq_f64(by4[0], by4[1]);
    return vgetq_lane_f64(by2, 0) + vgetq_lane_f64(by2, 1);
  }
  // By the instruction: the library's function would be called for negative numbers.
  static double root(double x) { return vget_lane_f64(vsqrt_f64(vdup_n_f64(x)), 0); }

 private:
  static uint8x8_t load_bytes(const std::byte* p) {
    return vld1_u8(reinterpret_cast<const uint8_t*>(p));
  }
  // n bytes, the rest 0.
  static uint8x8_t load_bytes(const std::byte* p, size_t n) {
    uint8_t bytes[8] = {};
    std::memcpy(bytes, p, n);
    return vld1_u8(bytes);
  }
};

}  // namespace
}  // namespace phidias::neon
