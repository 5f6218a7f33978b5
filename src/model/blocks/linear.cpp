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

bool needs_quantized(const RunContext& context, const Matrix& weights) {
  return std::any_of(weights.blocks.begin(), weights.blocks.end(),
                     [&](const RowBlock& block) { return needs_quantized(context, block); });
}

// Weight rows [begin, end).
struct Share {
  size_t begin;
  size_t end;
};

void multiply(RunContext& context, const RowGroup& group, const Activations& x, float* y,
              size_t y_stride, Share share, size_t thread) {
  const Matrix& weights = *group.weights;
  size_t first = 0;
  for (const RowBlock& block : weights.blocks) {
    const size_t from = std::max(share.begin, first);
    const size_t to = std::min(share.end, first + block.rows);
    if (from < to) {
      MatmulArgs args;
      args.weights = block.data;
      args.row_bytes = format_row(block.format).row_bytes(weights.cols);
      args.cols = weights.cols;
      args.out_begin = from - first;
      args.out_end = to - first;
      args.x = x.row(group.first);
      args.x_stride = x.cols();
      args.rows = group.rows;
      args.y = y + group.first * y_stride + first;
      args.y_stride = y_stride;
      args.scratch = context.scratch[thread].data();
      if (needs_quantized(context, block)) {
        args.q = x.quantized_rows(group.first);
        context.kernels->matmul_q8[index_of(block.format)](args);
      } else {
        context.kernels->matmul_f32[index_of(block.format)](args);
      }
    }
    first += block.rows;
  }
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
  q_second_values_.ensure(rows_ * cols_);
  q_second_scales_.ensure(rows_ * groups);
  q_second_sums_.ensure(rows_ * groups);
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      context.kernels->quantize_q8(row(r), quantized_rows(r), cols_);
    }
  });
  quantized_ = true;
}

QuantizedRows Activations::quantized_rows(size_t first) const {
  const QuantizedRows all = {q_values_.data(),        q_scales_.data(),
                             q_sums_.data(),          q_second_values_.data(),
                             q_second_scales_.data(), q_second_sums_.data()};
  return all.from(first, cols_);
}

void linear(RunContext& context, const Matrix& weights, Activations& x, float* y, size_t y_stride,
            std::span<const float> bias) {
  const RowGroup all{&weights, 0, x.rows()};
  if (needs_quantized(context, weights)) x.quantize(context);
  context.reserve_scratch(matmul_scratch_floats(weights.cols));
  context.threads->run(weights.rows, kRowGrain, [&](size_t begin, size_t end, size_t thread) {
    multiply(context, all, x, y, y_stride, {begin, end}, thread);
    if (bias.empty()) return;
    for (size_t r = 0; r < x.rows(); ++r) {
      context.kernels->add(y + r * y_stride + begin, bias.data() + begin, end - begin);
    }
  });
}

void linear_groups(RunContext& context, std::span<const RowGroup> groups, Activations& x, float* y,
                   size_t y_stride) {
  if (groups.empty()) return;
  const bool quantized = std::any_of(groups.begin(), groups.end(), [&](const RowGroup& group) {
    return needs_quantized(context, *group.weights);
  });
  if (quantized) x.quantize(context);
  const Matrix& shape = *groups.front().weights;
  context.reserve_scratch(matmul_scratch_floats(shape.cols));
  // Each thread takes the same share of every matrix: balanced, however the rows are spread.
  context.threads->run(shape.rows, kRowGrain, [&](size_t begin, size_t end, size_t thread) {
    for (const RowGroup& group : groups)
      multiply(context, group, x, y, y_stride, {begin, end}, thread);
  });
}

}  // namespace phidias
