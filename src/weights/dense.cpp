#include "weights/dense.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace phidias {
namespace {

constexpr size_t kBlock = 64;

// The Cholesky factor of one block, in double.
bool factor_block(float* block, size_t stride, size_t n) {
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = j; i < n; ++i) {
      double sum = static_cast<double>(block[i * stride + j]);
      for (size_t k = 0; k < j; ++k) {
        sum -=
            static_cast<double>(block[i * stride + k]) * static_cast<double>(block[j * stride + k]);
      }
      if (i == j) {
        if (!(sum > 0) || !std::isfinite(sum)) return false;
        block[j * stride + j] = static_cast<float>(std::sqrt(sum));
      } else {
        block[i * stride + j] =
            static_cast<float>(sum / static_cast<double>(block[j * stride + j]));
      }
    }
  }
  return true;
}

// row := row L^-T, for the factor L [n, n] of a block.
void solve_row(const float* block, size_t stride, size_t n, float* row) {
  for (size_t j = 0; j < n; ++j) {
    double sum = static_cast<double>(row[j]);
    for (size_t k = 0; k < j; ++k)
      sum -= static_cast<double>(row[k]) * static_cast<double>(block[j * stride + k]);
    row[j] = static_cast<float>(sum / static_cast<double>(block[j * stride + j]));
  }
}

}  // namespace

DenseAlgebra::DenseAlgebra(const KernelTable& kernels, ParallelFor& threads)
    : kernels_(&kernels),
      threads_(&threads),
      scratch_(threads.threads()),
      results_(threads.threads()) {}

void DenseAlgebra::multiply(const FloatRows& a, const FloatRows& b, size_t cols, float* c,
                            size_t c_stride, size_t thread) {
  scratch_[thread].ensure(matmul_scratch_floats(cols));
  MatmulArgs args;
  args.weights = reinterpret_cast<const std::byte*>(b.data);
  args.row_bytes = b.stride * sizeof(float);
  args.cols = cols;
  args.out_end = b.rows;
  args.x = a.data;
  args.x_stride = a.stride;
  args.rows = a.rows;
  args.y = c;
  args.y_stride = c_stride;
  args.scratch = scratch_[thread].data();
  kernels_->matmul_f32[index_of(Format::kF32)](args);
}

void DenseAlgebra::add_moments(const float* transposed, size_t width, size_t count,
                               float* moments) {
  const size_t blocks = (width + kBlock - 1) / kBlock;
  for (auto& buffer : results_) buffer.ensure(kBlock * width);
  const auto add_block = [&](size_t block, size_t thread) {
    const size_t first = block * kBlock;
    const size_t rows = std::min(kBlock, width - first);
    const size_t columns = first + rows;
    float* products = results_[thread].data();
    multiply({transposed + first * count, rows, count}, {transposed, columns, count}, count,
             products, columns, thread);
    for (size_t r = 0; r < rows; ++r) {
      float* row = moments + (first + r) * width;
      for (size_t c = 0; c <= first + r; ++c) row[c] += products[r * columns + c];
    }
  };
  // A short row of the triangle goes with a long one, so that threads have the same to do.
  threads_->run((blocks + 1) / 2, 1, [&](size_t begin, size_t end, size_t thread) {
    for (size_t pair = begin; pair < end; ++pair) {
      add_block(pair, thread);
      const size_t other = blocks - 1 - pair;
      if (other != pair) add_block(other, thread);
    }
  });
}

bool DenseAlgebra::factor(float* matrix, size_t n) {
  for (auto& buffer : results_) buffer.ensure(kBlock * kBlock);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t columns = std::min(kBlock, n - first);
    float* diagonal = matrix + first * n + first;
    // What the columns before take off, of this block and all below it.
    if (first > 0) {
      threads_->run(n - first, kBlock, [&](size_t begin, size_t end, size_t thread) {
        float* products = results_[thread].data();
        for (size_t r = first + begin; r < first + end; r += kBlock) {
          const size_t rows = std::min(kBlock, first + end - r);
          multiply({matrix + r * n, rows, n}, {matrix + first * n, columns, n}, first, products,
                   columns, thread);
          for (size_t i = 0; i < rows; ++i) {
            // The upper triangle of the first block is no part of the matrix.
            const size_t last = std::min(columns, r + i - first + 1);
            float* row = matrix + (r + i) * n + first;
            for (size_t c = 0; c < last; ++c) row[c] -= products[i * columns + c];
          }
        }
      });
    }
    if (!factor_block(diagonal, n, columns)) return false;
    const size_t below = first + columns;
    threads_->run(n - below, 1, [&](size_t begin, size_t end, size_t) {
      for (size_t r = below + begin; r < below + end; ++r)
        solve_row(diagonal, n, columns, matrix + r * n + first);
    });
  }
  return true;
}

}  // namespace phidias
