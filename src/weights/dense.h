// Dense algebra in floats over the kernels' products: what calibrated quantization is made of.
#pragma once

#include <cstddef>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/table.h"

namespace phidias {

// Row r at data + r * stride.
struct FloatRows {
  const float* data = nullptr;
  size_t rows = 0;
  size_t stride = 0;
};

// Products of one thread at a time for each thread's scratch. The table and the threads must
// outlive it.
class DenseAlgebra {
 public:
  DenseAlgebra(const KernelTable& kernels, ParallelFor& threads);

  ParallelFor& threads() { return *threads_; }

  // c[i, j] = sum over k < cols of a[i, k] * b[j, k], by the calling thread, which is `thread`.
  void multiply(const FloatRows& a, const FloatRows& b, size_t cols, float* c, size_t c_stride,
                size_t thread);

  // Adds x^T x to the lower triangle of moments [width, width].
  //   transposed   x^T: [width, count], dense
  void add_moments(const float* transposed, size_t width, size_t count, float* moments);

  // Replaces the lower triangle of a symmetric positive definite matrix [n, n] by its Cholesky
  // factor L, matrix = L L^T; the rest is left alone. False where the matrix is not positive
  // definite.
  bool factor(float* matrix, size_t n);

 private:
  const KernelTable* kernels_;
  ParallelFor* threads_;
  std::vector<AlignedBuffer<float>> scratch_;  // of the kernels, one per thread
  std::vector<AlignedBuffer<float>> results_;  // likewise, of products that are then added
};

}  // namespace phidias
