// The plain kernels: short loops, nothing clever. They define what every other table computes.
#pragma once

#include "kernels/table.h"

namespace phidias::scalar {

void fill_elementwise(KernelTable& table);
void fill_matmul(KernelTable& table);
void fill_attention(KernelTable& table);
void fill_gradient(KernelTable& table);
void fill_layer_norm(KernelTable& table);
void fill_gegelu(KernelTable& table);

inline void fill(KernelTable& table) {
  fill_elementwise(table);
  fill_matmul(table);
  fill_attention(table);
  fill_gradient(table);
  fill_layer_norm(table);
  fill_gegelu(table);
}

}  // namespace phidias::scalar
