#include "kernels/x86/matmul_q8.h"

#include "kernels/avx2/panels.h"
#include "kernels/isa.h"
#include "kernels/places.h"

namespace phidias::avx2 {
namespace {

using namespace x86;

// The eight partial sums of one group.
struct Dot {
  // A byte with the bias in it would overflow the int16 sums.
  template <class U>
  static constexpr bool kSigned = U::kBits == 8;

  template <class U>
  static __m256i product(__m256i quants, __m256i x) {
    if constexpr (kSigned<U>) {
      const __m256i w = _mm256_xor_si256(quants, _mm256_set1_epi8(-128));
      return widen_pairs(signed_products(_mm256_abs_epi8(w), w, x));
    } else {
      return widen_pairs(_mm256_maddubs_epi16(quants, x));
    }
  }
};

template <class F>
struct Panels : Registers {
  using U = Unpack<F>;
  // Q6_K too: 63 * 127 * 4 would overflow, 32 * 127 * 8 does not.
  static constexpr bool kSigned = U::kBits == 8 || U::kBits == 6;
  static constexpr int kRun = U::kBits == 4 ? 8 : U::kBits == 8 ? 1 : 4;

  // The magnitudes of the weights need registers too.
  static constexpr size_t kRows = kSigned ? 3 : Registers::kRows;
  static constexpr size_t kTileRows = 1;
  static constexpr int kBias = kSigned ? 0 : U::kBias;
  static constexpr bool kHalves = U::kCodes;
  static constexpr bool kMinimum = U::kMinimum;
  static constexpr bool kPairs = false;

  static void unpack(const MatmulArgs& args, size_t out, size_t outs, size_t group, size_t groups,
                     generic::Panel<Panels>& panel) {
    unpack_panel<Panels, F, kSigned>(args, out, outs, group, groups, panel);
  }
  template <size_t kCount>
  [[gnu::always_inline]] static inline void group_sums(const generic::Panel<Panels>& panel,
                                                       size_t group,
                                                       const int8_t* const (&x)[kCount],
                                                       const int32_t* bias_sums, Floats* sums) {
    sums_of<Panels, kRun, kSigned>(panel, group, x, bias_sums, sums);
  }
  static void value_sums(const int8_t* values, int32_t (&sums)[2]) {
    x86::value_sums<kHalves>(values, sums);
  }
};

template <class F>
void matmul_q8(const MatmulArgs& args) {
  if (args.rows == 1) return matvec_q8<F, Dot>(args);
  generic::matmul_q8_panels<Panels<F>>(args);
}

}  // namespace

void fill_matmul_q8(KernelTable& table) {
  table.matmul_q8[kAt<Format::kQ8_0>] = matmul_q8<Q8_0>;
  table.matmul_q8[kAt<Format::kQ4_0>] = matmul_q8<Q4_0>;
  table.matmul_q8[kAt<Format::kQ4_1>] = matmul_q8<Q4_1>;
  table.matmul_q8[kAt<Format::kQ5_0>] = matmul_q8<Q5_0>;
  table.matmul_q8[kAt<Format::kQ5_1>] = matmul_q8<Q5_1>;
  table.matmul_q8[kAt<Format::kQ4_K>] = matmul_q8<Q4_K>;
  table.matmul_q8[kAt<Format::kQ5_K>] = matmul_q8<Q5_K>;
  table.matmul_q8[kAt<Format::kQ6_K>] = matmul_q8<Q6_K>;
}

}  // namespace phidias::avx2
