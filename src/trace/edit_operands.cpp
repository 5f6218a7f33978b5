// What an edit is applied with: its tensors, checked and laid out for one value.
#include <algorithm>
#include <cmath>

#include "base/invalid.h"
#include "base/try.h"
#include "trace/edit_program.h"
#include "trace/vector_math.h"

namespace phidias {
namespace {

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool all_finite(const Tensor& tensor) {
  return std::all_of(tensor.floats.begin(), tensor.floats.end(),
                     [](float x) { return std::isfinite(x); });
}

}  // namespace

Status EditProgram::compile_operands(const std::string& place) {
  for (const TensorPointer& tensor : {edit_->tensor, edit_->second, edit_->probe}) {
    if (tensor == nullptr) continue;
    if (tensor->type != TensorType::kF32) return invalid("the tensor is not of floats", place);
    uint64_t count = 1;
    for (const uint64_t extent : tensor->shape) count *= extent;
    if (count != tensor->floats.size() || count == 0)
      return invalid("the tensor's shape is not that of its numbers", place);
    if (!all_finite(*tensor)) return invalid("the tensor has an infinity or a NaN", place);
  }
  if (edit_->probe != nullptr && edit_->probe->floats.size() != entry_count_) {
    return invalid("the probe has " + std::to_string(edit_->probe->floats.size()) +
                       " numbers, the vectors " + std::to_string(entry_count_),
                   place);
  }
  switch (edit_->op) {
    case EditOp::kScale:
      if (edit_->tensor == nullptr) return {};
      [[fallthrough]];
    case EditOp::kSet:
    case EditOp::kAdd:
    case EditOp::kSteer: {
      PHIDIAS_TRY(operand_, broadcast(*edit_->tensor, place));
      return {};
    }
    case EditOp::kMean: {
      const std::vector<float>& all = edit_->tensor->floats;
      if (edit_->tensor->shape.empty() || edit_->tensor->shape.back() != entry_count_)
        return invalid("the mean is taken of vectors of " + std::to_string(entry_count_), place);
      const size_t vectors = all.size() / entry_count_;
      for (size_t c = 0; c < entry_count_; ++c) {
        double sum = 0;
        for (size_t v = 0; v < vectors; ++v) sum += static_cast<double>(all[v * entry_count_ + c]);
        mean_.push_back(static_cast<float>(sum / static_cast<double>(vectors)));
      }
      return {};
    }
    case EditOp::kProjectOut:
    case EditOp::kKeepOnly:
      return compile_basis(*edit_->tensor, place);
    case EditOp::kSwapSubspace: {
      PHIDIAS_TRY(operand_, broadcast(*edit_->tensor, place));
      return compile_basis(*edit_->second, place);
    }
    case EditOp::kSae:
      return check_autoencoder(place);
    case EditOp::kLowRank: {
      const std::vector<uint64_t>& a = edit_->tensor->shape;
      const std::vector<uint64_t>& b = edit_->second->shape;
      if (a.size() != 2 || b.size() != 2 || a[1] != entry_count_ || b[0] != entry_count_ ||
          a[0] != b[1]) {
        return invalid("A " + shape_text(a) + " and B " + shape_text(b) + " must be [r, " +
                           std::to_string(entry_count_) + "] and [" + std::to_string(entry_count_) +
                           ", r]",
                       place);
      }
      return {};
    }
    default:
      return {};
  }
}

Status EditProgram::check_autoencoder(const std::string& place) const {
  const Autoencoder& autoencoder = *edit_->autoencoder;
  const Status fits = autoencoder.check();
  if (!fits.ok()) return invalid(fits.error().message, place);
  for (const Tensor* tensor : {&autoencoder.encoder, &autoencoder.encoder_bias,
                               &autoencoder.decoder, &autoencoder.decoder_bias}) {
    if (!all_finite(*tensor)) return invalid("the autoencoder has an infinity or a NaN", place);
  }
  if (edit_->autoencoder->width() != entry_count_) {
    return invalid("the autoencoder is of vectors of " +
                       std::to_string(edit_->autoencoder->width()) + ", these have " +
                       std::to_string(entry_count_),
                   place);
  }
  for (size_t i = 0; i < edit_->features.size(); ++i) {
    const FeatureEdit& feature = edit_->features[i];
    if (feature.feature >= edit_->autoencoder->features())
      return invalid("there is no feature " + std::to_string(feature.feature), place);
    if (!std::isfinite(feature.number)) return invalid("a feature's number is not finite", place);
    for (size_t j = 0; j < i; ++j) {
      if (edit_->features[j].feature == feature.feature)
        return invalid("feature " + std::to_string(feature.feature) + " is changed twice", place);
    }
  }
  return {};
}

// Orthonormal rows that span the directions (Gram and Schmidt, each row twice against rounding).
Status EditProgram::compile_basis(const Tensor& directions, const std::string& place) {
  if (directions.floats.size() % entry_count_ != 0 || directions.shape.empty() ||
      directions.shape.back() != entry_count_) {
    return invalid("the directions " + shape_text(directions.shape) + " must have rows of " +
                       std::to_string(entry_count_),
                   place);
  }
  for (size_t begin = 0; begin < directions.floats.size(); begin += entry_count_) {
    std::vector<double> row(
        directions.floats.begin() + static_cast<ptrdiff_t>(begin),
        directions.floats.begin() + static_cast<ptrdiff_t>(begin + entry_count_));
    const double length = std::sqrt(dot(row, row));
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::vector<double>& other : basis_) {
        const double along = dot(row, other);
        for (size_t i = 0; i < row.size(); ++i) row[i] -= along * other[i];
      }
    }
    const double left = std::sqrt(dot(row, row));
    if (left <= 1e-6 * length || length == 0) continue;  // it depends on those before it
    for (double& x : row) x /= left;
    basis_.push_back(std::move(row));
  }
  if (basis_.empty()) return invalid("the directions are zero", place);
  return {};
}

Result<EditProgram::Broadcast> EditProgram::broadcast(const Tensor& tensor,
                                                      const std::string& place) const {
  const Layout layout = info_of(id()).layout;
  const uint64_t positions = at_.size();
  const uint64_t heads = heads_.size();
  const uint64_t entries = entry_count_;
  // The selected part as it is laid out, and which stride each axis has.
  std::vector<uint64_t> part{1, positions, entries};
  std::vector<size_t Broadcast::*> strides{nullptr, &Broadcast::by_position, &Broadcast::by_entry};
  if (layout == Layout::kTokens) {
    part = {1, positions};
    strides = {nullptr, &Broadcast::by_position};
  } else if (layout == Layout::kHeadOutputs) {
    part = {1, positions, heads, entries};
    strides = {nullptr, &Broadcast::by_position, &Broadcast::by_head, &Broadcast::by_entry};
  } else if (has_heads(layout)) {
    part = {1, heads, positions, entries};
    strides = {nullptr, &Broadcast::by_head, &Broadcast::by_position, &Broadcast::by_entry};
  }
  const Error wrong =
      invalid("a tensor " + shape_text(tensor.shape) + " cannot be spread over the selected " +
                  shape_text(part) + " " + std::string(name_of(layout)),
              place);
  if (tensor.shape.size() > part.size()) return wrong;
  Broadcast result;
  result.data = tensor.floats.data();
  size_t stride = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const size_t axis = part.size() - 1 - i;
    const uint64_t extent = tensor.shape[tensor.shape.size() - 1 - i];
    if (extent != 1) {
      if (extent != part[axis]) return wrong;
      if (strides[axis] != nullptr) result.*strides[axis] = stride;
    }
    stride *= extent;
  }
  return result;
}

}  // namespace phidias
