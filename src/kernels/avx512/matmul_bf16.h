// Products of bf16 weights with activations rounded to bf16. A pair of bf16 values takes the place
// of a float everywhere: rows of floats become rows of pairs, and a multiply-add becomes two.
#pragma once

#include "kernels/avx512/vec.h"
#include "kernels/generic/matmul_f32.h"

namespace phidias::avx512_vnni {
namespace {

// Dot: Floats dot(Floats w, Floats x, Floats sum) with pairs in w and x, added to sum.
template <class Dot>
struct PairVec : Vec {
  static Floats fma(Floats w, Floats x, Floats sum) { return Dot::dot(w, x, sum); }
  // The totals of chunks are floats, not pairs.
  static Doubles fma(Doubles a, Doubles b, Doubles c) { return Vec::fma(a, b, c); }
};

template <class Dot>
void matmul_bf16(const MatmulArgs& args) {
  MatmulArgs pairs = args;
  pairs.cols = args.cols / 2;
  pairs.x = reinterpret_cast<const float*>(args.bf16);
  pairs.x_stride = pairs.cols;
  const auto copy = [](const MatmulArgs& of, size_t out, size_t begin, size_t columns, float* dst) {
    __builtin_memcpy(dst, of.weights + out * of.row_bytes + begin * sizeof(float),
                     columns * sizeof(float));
  };
  generic::matmul_f32<PairVec<Dot>, Vec::F32Rows, true>(pairs, copy);
}

}  // namespace
}  // namespace phidias::avx512_vnni
