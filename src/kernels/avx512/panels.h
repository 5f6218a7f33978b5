// What the panels of all formats share. Local to the including file.
#pragma once

#include <cstring>

#include "kernels/avx512/vec.h"
#include "kernels/generic/matmul_q8.h"

namespace phidias::avx512_vnni {
namespace {

// Per step of four columns kVectors registers of weights meet
// up to eight rows of activations: for two and eight, ten loads for sixteen products. The chains do
// not all find room beside the sums of a group; they are needed but once a group.
struct Registers {
  using Floats = __m512;
  static constexpr size_t kVectors = 2;
  static constexpr size_t kOuts = 16 * kVectors;
  static constexpr size_t kRows = 8;

  static Floats zero() { return Vec::zero(); }
  static Floats set(float x) { return Vec::set(x); }
  static Floats load(const float* p) { return Vec::load(p); }
  static void store(float* p, Floats x) { Vec::store(p, x); }
  static void stream(float* y, const float* chains) {
    constexpr size_t kLanes = kOuts / kVectors;
    for (size_t v = 0; v < kVectors; ++v)
      _mm512_stream_ps(y + v * kLanes, load(chains + v * kLanes));
  }
  static void end_streams() { _mm_sfence(); }
  static void park(Floats&) {}
  static Floats mul(Floats a, Floats b) { return Vec::mul(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return Vec::fma(a, b, c); }

  // The bits of a float.
  static int32_t code_lane(int32_t code) {
    const float value = static_cast<float>(code);
    int32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }

  template <class Q, size_t kCount>
  [[gnu::always_inline]] static inline void sums_of(const generic::Panel<Q>& panel, size_t group,
                                                    const int8_t* const (&x)[kCount],
                                                    const int32_t* bias_sums, Floats* sums) {
    constexpr size_t kParts = Q::kHalves ? 2 : 1;
#pragma GCC unroll 2
    for (size_t part = 0; part < kParts; ++part) {
      __m512i whole[kCount * kVectors];
#pragma GCC unroll 16
      for (size_t r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          whole[r * kVectors + v] = Q::kBias == 0 ? _mm512_setzero_si512()
                                                  : _mm512_set1_epi32(bias_sums[part * kCount + r]);
        }
      }
#pragma GCC unroll 8
      for (size_t k = part * 4; k < (part + 1) * 8 / kParts; ++k) {
        __m512i w[kVectors];
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          w[v] = _mm512_load_si512(panel.quants[group][k][v * 16]);
        }
#pragma GCC unroll 16
        for (size_t r = 0; r < kCount; ++r) {
          int32_t four;
          std::memcpy(&four, x[r] + group * kQuantGroup + k * 4, sizeof(four));
          const __m512i values = _mm512_set1_epi32(four);
#pragma GCC unroll 2
          for (size_t v = 0; v < kVectors; ++v) {
            __m512i& sum = whole[r * kVectors + v];
            sum = _mm512_dpbusd_epi32(sum, w[v], values);
          }
        }
      }
      // With codes the sum is put together in floats: all of it is whole and below 2^24.
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        const Floats code = Q::kHalves ? _mm512_load_ps(panel.codes[group][part] + v * 16) : zero();
#pragma GCC unroll 16
        for (size_t r = 0; r < kCount; ++r) {
          const size_t i = r * kVectors + v;
          const Floats value = _mm512_cvtepi32_ps(whole[i]);
          if constexpr (Q::kHalves) {
            sums[i] = part == 0 ? mul(value, code) : fma(value, code, sums[i]);
          } else {
            sums[i] = value;
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace phidias::avx512_vnni
