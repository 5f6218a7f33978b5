// Products in floats of the x86 instruction sets: for their table files, which bring Vec. Local to
// the including file.
#pragma once

#include "kernels/generic/matmul_f32_table.h"
#include "kernels/x86/unpack.h"

namespace phidias {
namespace {
namespace x86 {

struct Decoder {
  template <class F>
  static void row(const std::byte* row, float* dst, size_t cols) {
    decode_row<F>(row, dst, cols);
  }
  static void q4_row(const std::byte* tile, size_t row, float* dst, size_t cols) {
    decode_q4(tile, row, dst, cols);
  }
};

}  // namespace x86
}  // namespace
}  // namespace phidias
