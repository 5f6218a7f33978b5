// The entrances of the instruction sets' own folders. Each overwrites what it does better in a
// copy of the table below it, and may be called only where the CPU has the instructions.
#pragma once

#include "kernels/table.h"

namespace phidias {

namespace avx2 {
void fill_elementwise(KernelTable& table);
void fill_kv_store(KernelTable& table);
void fill_matmul_f32(KernelTable& table);
void fill_matmul_q8(KernelTable& table);
void fill_matmul_q4(KernelTable& table);
void fill_attention(KernelTable& table);
void fill_gradient(KernelTable& table);
void fill_layer_norm(KernelTable& table);
void fill_gegelu(KernelTable& table);
}  // namespace avx2

namespace neon {
void fill_elementwise(KernelTable& table);
void fill_kv_store(KernelTable& table);
void fill_matmul_f32(KernelTable& table);
void fill_matmul_q8(KernelTable& table);
void fill_matmul_q4(KernelTable& table);
void fill_attention(KernelTable& table);
void fill_gradient(KernelTable& table);
void fill_layer_norm(KernelTable& table);
void fill_gegelu(KernelTable& table);
}  // namespace neon

namespace neon_dotprod {
void fill_matmul_q8(KernelTable& table);
void fill_matmul_q4(KernelTable& table);
}  // namespace neon_dotprod

namespace neon_i8mm {
void fill_matmul_q8(KernelTable& table);
void fill_matmul_q4(KernelTable& table);
}  // namespace neon_i8mm

namespace avx512_bf16 {
void fill_matmul_bf16(KernelTable& table);
}  // namespace avx512_bf16

namespace avx512_vnni {
void fill_matmul_f32(KernelTable& table);
void fill_matmul_q8(KernelTable& table);
void fill_matmul_q4(KernelTable& table);
void fill_attention(KernelTable& table);
void fill_gradient(KernelTable& table);
}  // namespace avx512_vnni

}  // namespace phidias
