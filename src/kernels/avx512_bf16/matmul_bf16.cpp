#include "kernels/avx512/matmul_bf16.h"

#include "kernels/isa.h"

namespace phidias::avx512_bf16 {
namespace {

struct Instruction {
  static __m512 dot(__m512 w, __m512 x, __m512 sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
  }
};

}  // namespace

void fill_matmul_bf16(KernelTable& table) {
  table.matmul_bf16 = avx512_vnni::matmul_bf16<Instruction>;
}

}  // namespace phidias::avx512_bf16
