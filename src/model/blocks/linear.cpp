#include "model/blocks/linear.h"

#include <algorithm>

namespace phidias {
namespace {

// Shares end at multiples of this many weight rows: whole tiles of every kernel, whole cache lines
// of output.
constexpr size_t kRowGrain = 16;

bool needs_quantized(const RunContext& context, const RowBlock& block) {
  return context.numerics == Numerics::kFast &&
         context.kernels->matmul_q8[index_of(block.format)] != nullptr;
}

}  // namespace

float* Activations::resize(size_t rows, size_t cols) {
  rows_ = rows;
  cols_ = cols;
  quantized_ = false;
  values_.ensure(rows * cols);
  return values_.data();
}

void Activations::quantize(RunContext& context) {
  if (quantized_) return;
  const size_t groups = cols_ / kQuantGroup;
  q_values_.ensure(rows_ * cols_);
  q_scales_.ensure(rows_ * groups);
  q_sums_.ensure(rows_ * groups);
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      context.kernels->quantize_q8(row(r), q_values_.data() + r * cols_,
                                   q_scales_.data() + r * groups, q_sums_.data() + r * groups,
                                   cols_);
    }
  });
  quantized_ = true;
}

QuantizedRows Activations::quantized_rows() const {
  return {q_values_.data(), q_scales_.data(), q_sums_.data()};
}

void linear(RunContext& context, const Matrix& weights, Activations& x, float* y, size_t y_stride) {
  const bool quantized =
      std::any_of(weights.blocks.begin(), weights.blocks.end(),
                  [&](const RowBlock& block) { return needs_quantized(context, block); });
  if (quantized) x.quantize(context);
  context.reserve_scratch(matmul_scratch_floats(weights.cols));
  context.threads->run(weights.rows, kRowGrain, [&](size_t begin, size_t end, size_t thread) {
    size_t first = 0;
    for (const RowBlock& block : weights.blocks) {
      const size_t from = std::max(begin, first);
      const size_t to = std::min(end, first + block.rows);
      if (from < to) {
        MatmulArgs args;
        args.weights = block.data;
        args.row_bytes = format_row(block.format).row_bytes(weights.cols);
        args.cols = weights.cols;
        args.out_begin = from - first;
        args.out_end = to - first;
        args.x = x.row(0);
        args.x_stride = x.cols();
        args.rows = x.rows();
        args.y = y + first;
        args.y_stride = y_stride;
        args.scratch = context.scratch[thread].data();
        if (needs_quantized(context, block)) {
          args.q = x.quantized_rows();
          context.kernels->matmul_q8[index_of(block.format)](args);
        } else {
          context.kernels->matmul_f32[index_of(block.format)](args);
        }
      }
      first += block.rows;
    }
  });
}

}  // namespace phidias
