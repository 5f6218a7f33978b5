#include "weights/error_feedback.h"

#include <algorithm>
#include <cstring>

namespace phidias {
namespace {

// Of the mean square of all inputs, added to each: what the text did not show may still come.
constexpr double kDamping = 0.01;

}  // namespace

std::optional<ErrorFeedback> ErrorFeedback::create(const AlignedBuffer<float>& moments,
                                                   size_t width, size_t block,
                                                   DenseAlgebra& algebra) {
  double mean = 0;
  for (size_t i = 0; i < width; ++i) mean += static_cast<double>(moments[i * width + i]);
  mean /= static_cast<double>(width);
  if (!(mean > 0)) return std::nullopt;
  // Scaled so that nothing over- or underflows, damped until it can be factored.
  AlignedBuffer<float> factor(width * width);
  bool factored = false;
  for (double damping = kDamping; !factored && damping < 100; damping *= 10) {
    for (size_t r = 0; r < width; ++r) {
      for (size_t c = 0; c <= r; ++c) {
        const double value = static_cast<double>(moments[r * width + c]) / mean;
        factor[r * width + c] = static_cast<float>(r == c ? value + damping : value);
      }
    }
    factored = algebra.factor(factor.data(), width);
  }
  if (!factored) return std::nullopt;

  ErrorFeedback feedback(std::move(factor), width, block);
  float* l = feedback.factor_.data();
  algebra.threads().run(width / block, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t at = begin * block; at < end * block; at += block) {
      // Rows of L_BB^-T L_DB^T, by back substitution; D are the columns behind the block.
      const size_t behind = at + block;
      for (size_t b = block; b-- > 0;) {
        float* row = l + (at + b) * width;
        for (size_t d = behind; d < width; ++d) row[d] = l[d * width + at + b];
        for (size_t k = b + 1; k < block; ++k) {
          const float part = l[(at + k) * width + at + b];
          const float* later = l + (at + k) * width;
          for (size_t d = behind; d < width; ++d) row[d] -= part * later[d];
        }
        const float inverse = 1.0F / row[at + b];
        for (size_t d = behind; d < width; ++d) row[d] *= inverse;
      }
      for (size_t b = 0; b < block; ++b) {
        double sum = 0;
        for (size_t k = 0; k <= b; ++k) {
          const auto part = static_cast<double>(l[(at + b) * width + at + k]);
          sum += part * part;
        }
        feedback.importance_[at + b] = static_cast<float>(sum);
      }
    }
  });
  return feedback;
}

void ErrorFeedback::Workspace::reserve(size_t width, size_t block_columns) {
  errors.ensure(kRows * width);
  targets.ensure(kRows * block_columns);
  block.ensure(kRows * block_columns);
}

void ErrorFeedback::encode(const float* values, size_t rows, const FormatRow& format,
                           std::byte* tiles, DenseAlgebra& algebra, Workspace& workspace,
                           size_t thread) const {
  workspace.reserve(width_, block_);
  const size_t tile_bytes = format.tile_bytes(width_);
  float* errors = workspace.errors.data();
  float* targets = workspace.targets.data();
  for (size_t at = width_; at > 0;) {
    const size_t behind = at;
    at -= block_;
    if (behind < width_) {
      algebra.multiply({errors + behind, rows, width_},
                       {factor_.data() + at * width_ + behind, block_, width_}, width_ - behind,
                       targets, block_, thread);
    } else {
      std::memset(targets, 0, rows * block_ * sizeof(float));
    }
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < block_; ++c) targets[r * block_ + c] += values[r * width_ + at + c];
    }
    for (size_t first = 0; first < rows; first += format.tile_rows) {
      const size_t count = std::min<size_t>(format.tile_rows, rows - first);
      std::byte* block = tiles + first / format.tile_rows * tile_bytes + format.tile_bytes(at);
      format.encode_tile(targets + first * block_, count, importance_.data() + at, block, block_);
      float* decoded = workspace.block.data();
      for (size_t r = 0; r < count; ++r) {
        format.decode_tile_row(block, r, decoded, block_);
        const float* value = values + (first + r) * width_ + at;
        float* error = errors + (first + r) * width_ + at;
        for (size_t c = 0; c < block_; ++c) error[c] = value[c] - decoded[c];
      }
    }
  }
}

}  // namespace phidias
