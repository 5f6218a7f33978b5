// Compiled for AVX-512: nothing here may be of use to another file.
#include "unit/kernels/bf16_stand_in.h"

#include "kernels/avx512/matmul_bf16.h"

namespace phidias::test {
namespace {

// What the instruction does to a lane: the odd pair of factors, then the even one, each product
// added with one rounding.
struct StandIn {
  static __m512 dot(__m512 w, __m512 x, __m512 sum) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    const __m512i wi = _mm512_castps_si512(w), xi = _mm512_castps_si512(x);
    const __m512 odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(wi, upper)),
                                       _mm512_castsi512_ps(_mm512_and_si512(xi, upper)), sum);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(wi, 16)),
                           _mm512_castsi512_ps(_mm512_slli_epi32(xi, 16)), odd);
  }
};

}  // namespace

void stand_in_matmul_bf16(const MatmulArgs& args) { avx512_vnni::matmul_bf16<StandIn>(args); }

}  // namespace phidias::test
