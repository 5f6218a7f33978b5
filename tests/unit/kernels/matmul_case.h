// A product of random weights and activations, laid out so that a kernel that strays is caught.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "kernel_test.h"
#include "quant/format.h"

namespace phidias::test {

// Random blocks with scales of the size that real ones have: every bit pattern of the quants and
// codes occurs, which encoded weights would not give.
std::vector<std::byte> random_weights(Format format, size_t outs, size_t cols, uint32_t seed);

// Sets the F16 numbers of all blocks to what `next` returns.
void set_scales(Format format, std::span<std::byte> weights, const std::function<float()>& next);

class MatmulCase {
 public:
  MatmulCase(Format format, size_t outs, size_t cols, size_t rows, uint32_t seed);

  struct Part {
    size_t first_row = 0;
    size_t rows = 0;
    size_t out_begin = 0;
    size_t out_end = 0;
  };
  Part whole() const { return {0, rows_, 0, outs_}; }
  // y [rows of the part, outs]; what the part leaves out is NaN.
  std::vector<float> f32(const KernelTable& table, const Part& part);
  std::vector<float> q8(const KernelTable& table, const Part& part);

  size_t outs() const { return outs_; }
  size_t rows() const { return rows_; }
  size_t groups() const { return cols_ / kQuantGroup; }
  // The exact product, of decoded weights with the activations or with their quantized form, and
  // the sum of the magnitudes of all its terms.
  struct Exact {
    double value;
    double magnitudes;
  };
  Exact exact_f32(size_t row, size_t out) const;
  Exact exact_q8(size_t row, size_t out) const;

 private:
  MatmulArgs arguments(const Part& part, std::vector<float>& y);

  Format format_;
  size_t outs_, cols_, rows_;
  GuardedArray<std::byte> weights_;
  GuardedArray<float> x_;
  std::unique_ptr<QuantizedMemory> quantized_;
  AlignedBuffer<float> scratch_;
};

}  // namespace phidias::test
