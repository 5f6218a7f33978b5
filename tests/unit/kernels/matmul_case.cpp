#include "matmul_case.h"

#include "quant/float16.h"
#include "quant/q4.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"

namespace phidias::test {
namespace {

// Where a block's F16 numbers lie; the same place twice if it has but one.
struct ScalePlaces {
  size_t scale = 0;
  size_t minimum = 0;
};
ScalePlaces scale_places(Format format) {
  switch (format) {
    case Format::kQ4_1:
      return {offsetof(Q4_1::Block, scale), offsetof(Q4_1::Block, minimum)};
    case Format::kQ5_1:
      return {offsetof(Q5_1::Block, scale), offsetof(Q5_1::Block, minimum)};
    case Format::kQ4_K:
      return {offsetof(Q4_K::Block, scale), offsetof(Q4_K::Block, minimum)};
    case Format::kQ5_K:
      return {offsetof(Q5_K::Block, scale), offsetof(Q5_K::Block, minimum)};
    case Format::kQ6_K:
      return {offsetof(Q6_K::Block, scale), offsetof(Q6_K::Block, scale)};
    default:
      return {};
  }
}

// Normal values; in some groups one that is large enough for a second term, often in the same place
// in several rows.
std::vector<float> activations(size_t rows, size_t cols, uint32_t seed) {
  std::vector<float> x = normal_floats(rows * cols, seed);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = seed % 7; i < cols; i += 90) x[r * cols + i] *= r % 3 == 0 ? 40.0F : 1.0F;
    if (r % 4 == 1) x[r * cols + cols - 1] = -30.0F;
  }
  return x;
}

}  // namespace

std::vector<std::byte> random_weights(Format format, size_t outs, size_t cols, uint32_t seed) {
  const FormatRow& row = format_row(format);
  std::vector<std::byte> bytes(row.matrix_bytes(outs, cols));
  std::mt19937 random(seed);
  if (row.block_values == 1) {
    const std::vector<float> values = normal_floats(outs * cols, seed);
    row.encode(values.data(), bytes.data(), values.size());
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (format == Format::kQ4) {
    // Every code is a scale; these are the common ones.
    for (size_t at = 0; at < bytes.size(); at += sizeof(Q4::Block)) {
      for (size_t r = 0; r < Q4::kTileRows; ++r) {
        bytes[at + r] = static_cast<std::byte>(130 + random() % 16);
      }
    }
    return bytes;
  }
  std::normal_distribution<float> normal(0, 0.01F);
  set_scales(format, bytes, [&] { return normal(random); });
  return bytes;
}

void set_scales(Format format, std::span<std::byte> weights, const std::function<float()>& next) {
  const ScalePlaces places = scale_places(format);
  for (size_t at = 0; at < weights.size(); at += format_row(format).block_bytes) {
    for (const size_t place : {places.scale, places.minimum}) {
      const uint16_t bits = encode_f16(next());
      std::memcpy(weights.data() + at + place, &bits, sizeof(bits));
    }
  }
}

MatmulCase::MatmulCase(Format format, size_t outs, size_t cols, size_t rows, uint32_t seed)
    : format_(format),
      outs_(outs),
      cols_(cols),
      rows_(rows),
      weights_(random_weights(format, outs, cols, seed)),
      x_(activations(rows, cols, seed + 1)),
      scratch_(matmul_scratch_floats(cols)) {
  if (cols % kQuantGroup != 0) return;
  quantized_ = std::make_unique<QuantizedMemory>(*available_tables().front(), x_.span(), rows);
}

MatmulArgs MatmulCase::arguments(const Part& part, std::vector<float>& y) {
  y.assign(part.rows * outs_, NAN);
  // The scratch's old contents must not matter.
  std::memset(scratch_.data(), 0xFF, scratch_.size() * sizeof(float));
  MatmulArgs args;
  args.weights = weights_.data();
  args.row_bytes = format_row(format_).tile_bytes(cols_);
  args.cols = cols_;
  args.out_begin = part.out_begin;
  args.out_end = part.out_end;
  args.x = x_.data() + part.first_row * cols_;
  args.x_stride = cols_;
  if (quantized_) args.q = quantized_->rows().from(part.first_row, cols_);
  args.rows = part.rows;
  args.y = y.data();
  args.y_stride = outs_;
  args.scratch = scratch_.data();
  return args;
}

std::vector<float> MatmulCase::f32(const KernelTable& table, const Part& part) {
  std::vector<float> y;
  table.matmul_f32[index_of(format_)](arguments(part, y));
  return y;
}

std::vector<float> MatmulCase::q8(const KernelTable& table, const Part& part) {
  std::vector<float> y;
  table.matmul_q8[index_of(format_)](arguments(part, y));
  return y;
}

MatmulCase::Exact MatmulCase::exact_f32(size_t row, size_t out) const {
  const FormatRow& format = format_row(format_);
  std::vector<float> weights(cols_);
  format.decode_row(weights_.data(), out, weights.data(), cols_);
  Exact exact = {0, 0};
  for (size_t i = 0; i < cols_; ++i) {
    const double term = double{weights[i]} * double{x_.data()[row * cols_ + i]};
    exact.value += term;
    exact.magnitudes += std::fabs(term);
  }
  return exact;
}

MatmulCase::Exact MatmulCase::exact_q8(size_t row, size_t out) const {
  const FormatRow& format = format_row(format_);
  std::vector<float> weights(cols_);
  format.decode_row(weights_.data(), out, weights.data(), cols_);
  Exact exact = {0, 0};
  const QuantizedRows q = quantized_->rows().from(row, cols_);
  for (size_t i = 0; i < cols_; ++i) {
    const size_t g = i / kQuantGroup;
    double x = double{q.scales[g]} * static_cast<double>(q.values[i]);
    if (q.second_scales[g] != 0) {
      x += double{q.second_scales[g]} * static_cast<double>(q.second_values[i]);
    }
    const double term = double{weights[i]} * x;
    exact.value += term;
    exact.magnitudes += std::fabs(term);
  }
  return exact;
}

}  // namespace phidias::test
