#include "model/blocks/linear.h"

#include <algorithm>

#include "base/run_balanced.h"

namespace phidias {
namespace {

// Shares end at multiples of this many weight rows: whole tiles of every kernel, whole cache lines
// of output.
constexpr size_t kRowGrain = 16;

// Threads get unequal parts of the memory and of the processor, and a wait in one would become one
// of all: large products are balanced, in units of so many weight rows. More activation rows make a
// call dear, whose numbers are put in order first.
constexpr size_t kFewRows = 4;
constexpr size_t kFewRowsGrain = 64;
constexpr size_t kManyRowsGrain = 256;
// With fewer units for each thread, whole ones would share out less evenly than fixed parts.
constexpr size_t kUnitsToBalance = 6;

// What the activations are rounded to for a product.
enum class Rounding : uint8_t { kNone, kQ8, kBF16 };

Rounding rounding_for(const RunContext& context, const RowBlock& block, size_t cols) {
  if (context.numerics != Numerics::kFast) return Rounding::kNone;
  if (context.kernels->matmul_q8[index_of(block.format)] != nullptr) return Rounding::kQ8;
  const bool pairs = block.format == Format::kBF16 && cols % 2 == 0;
  return pairs && context.kernels->matmul_bf16 != nullptr ? Rounding::kBF16 : Rounding::kNone;
}

void round_for(RunContext& context, const Matrix& weights, Activations& x) {
  for (const RowBlock& block : weights.blocks) {
    const Rounding rounding = rounding_for(context, block, weights.cols);
    if (rounding == Rounding::kQ8) x.quantize(context);
    if (rounding == Rounding::kBF16) x.round_bf16(context);
  }
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
      switch (rounding_for(context, block, weights.cols)) {
        case Rounding::kQ8:
          args.q = x.quantized_rows(group.first);
          context.kernels->matmul_q8[index_of(block.format)](args);
          break;
        case Rounding::kBF16:
          args.bf16 = x.bf16_rows(group.first);
          context.kernels->matmul_bf16(args);
          break;
        case Rounding::kNone:
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
  rounded_ = false;
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

void Activations::round_bf16(RunContext& context) {
  if (rounded_) return;
  bf16_.ensure(rows_ * cols_);
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r)
      context.kernels->round_bf16(row(r), bf16_.data() + r * cols_, cols_);
  });
  rounded_ = true;
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
  round_for(context, weights, x);
  context.reserve_scratch(matmul_scratch_floats(weights.cols));
  const auto share = [&](size_t begin, size_t end, size_t thread) {
    multiply(context, all, x, y, y_stride, {begin, end}, thread);
    if (bias.empty()) return;
    for (size_t r = 0; r < x.rows(); ++r) {
      context.kernels->add(y + r * y_stride + begin, bias.data() + begin, end - begin);
    }
  };
  const size_t grain = x.rows() <= kFewRows ? kFewRowsGrain : kManyRowsGrain;
  if (weights.rows >= kUnitsToBalance * grain * context.threads->threads()) {
    run_balanced(*context.threads, weights.rows, grain, share);
  } else {
    context.threads->run(weights.rows, kRowGrain, share);
  }
}

void linear_groups(RunContext& context, std::span<const RowGroup> groups, Activations& x, float* y,
                   size_t y_stride) {
  if (groups.empty()) return;
  for (const RowGroup& group : groups) round_for(context, *group.weights, x);
  const Matrix& shape = *groups.front().weights;
  context.reserve_scratch(matmul_scratch_floats(shape.cols));
  // Each thread takes the same share of every matrix: balanced, however the rows are spread.
  context.threads->run(shape.rows, kRowGrain, [&](size_t begin, size_t end, size_t thread) {
    for (const RowGroup& group : groups)
      multiply(context, group, x, y, y_stride, {begin, end}, thread);
  });
}

}  // namespace phidias
