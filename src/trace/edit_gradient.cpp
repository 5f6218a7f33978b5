// The derivative of one edit: from the gradient at the edited vector to that at the vector before.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trace/edit_program.h"
#include "trace/vector_math.h"

namespace phidias {

uint64_t EditProgram::record_bytes() const {
  const bool depends = edit_->op == EditOp::kClamp || edit_->op == EditOp::kSae ||
                       edit_->keep_norm || edit_->renormalize || edit_->probe != nullptr;
  if (!depends || edit_->op == EditOp::kOnly) return 0;
  const uint64_t vectors = uint64_t{at_.size()} * heads_.size();
  return vectors * (entry_count_ * sizeof(float) +
                    (edit_->renormalize ? segment_.inner * sizeof(float) + sizeof(double) : 0));
}

std::shared_ptr<EditRecord> EditProgram::make_record() const {
  auto record = std::make_shared<EditRecord>();
  const size_t vectors = at_.size() * heads_.size();
  record->before.resize(vectors * entry_count_);
  if (edit_->renormalize) {
    record->rows.resize(vectors * segment_.inner);
    record->sums.resize(vectors);
  }
  return record;
}

void EditProgram::differentiate(const SiteRows& gradient) const {
  std::vector<float> entries;
  for (size_t r = 0; r < gradient.rows; ++r) {
    const size_t position = gradient.position + r;
    const size_t index = at_.index(position);
    if (index == PositionSet::kNone) continue;
    float* row = gradient.data + r * gradient.stride + segment_.offset;
    for (size_t g = 0; g < heads_.size(); ++g) {
      differentiate_lane({row + heads_[g] * segment_.group_stride, segment_.inner_stride, position,
                          index, g, heads_[g], segment_.inner, nullptr},
                         entries);
    }
  }
}

void EditProgram::differentiate(size_t head, const SiteRows& gradient) const {
  std::vector<float> entries;
  for_each_selected(head, gradient, [&](const Lane& lane) { differentiate_lane(lane, entries); });
}

void EditProgram::differentiate_lane(const Lane& lane, std::vector<float>& x) const {
  std::span<const float> before;
  if (record_ != nullptr) {
    before = std::span(record_->before).subspan(number_of(lane) * entry_count_, entry_count_);
    if (edit_->probe != nullptr && !(dot(before, edit_->probe->floats) > edit_->threshold)) return;
    if (edit_->renormalize) differentiate_sum(lane, number_of(lane));
  }
  x.resize(entry_count_);
  for (size_t i = 0; i < x.size(); ++i) x[i] = lane.data[entry(i) * lane.stride];
  switch (edit_->op) {
    case EditOp::kSet:
    case EditOp::kZero:
    case EditOp::kMean:
    case EditOp::kHide:
    case EditOp::kUniform:
      std::fill(x.begin(), x.end(), 0.0F);
      break;
    case EditOp::kScale:
    case EditOp::kProjectOut:
    case EditOp::kKeepOnly:
      change(lane, x);  // these maps are their own transposes
      break;
    case EditOp::kSwapSubspace: {
      std::vector<double> kept(x.begin(), x.end());
      for (const std::vector<double>& direction : basis_) {
        const double along = std::inner_product(x.begin(), x.end(), direction.begin(), 0.0);
        for (size_t i = 0; i < x.size(); ++i) kept[i] -= along * direction[i];
      }
      std::transform(kept.begin(), kept.end(), x.begin(),
                     [](double entry) { return static_cast<float>(entry); });
      break;
    }
    case EditOp::kLowRank: {
      const std::vector<float>& a = edit_->tensor->floats;
      const std::vector<float>& b = edit_->second->floats;
      const size_t rank = a.size() / x.size();
      std::vector<double> change(x.size());
      for (size_t r = 0; r < rank; ++r) {
        double inside = 0;
        for (size_t i = 0; i < x.size(); ++i)
          inside += static_cast<double>(b[i * rank + r]) * static_cast<double>(x[i]);
        for (size_t i = 0; i < x.size(); ++i)
          change[i] += inside * static_cast<double>(a[r * x.size() + i]);
      }
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(static_cast<double>(x[i]) + edit_->coefficient * change[i]);
      }
      break;
    }
    case EditOp::kClamp:
      for (size_t i = 0; i < x.size(); ++i) {
        const auto entry = static_cast<double>(before[i]);
        if (entry < edit_->low || entry > edit_->high) x[i] = 0;
      }
      break;
    case EditOp::kSteer:
      if (!edit_->keep_norm) return;
      differentiate_norm(lane, before, x);
      break;
    case EditOp::kSae:
      differentiate_features(before, x);
      break;
    case EditOp::kAdd:
    case EditOp::kNoise:
    case EditOp::kOnly:  // what it hides has no probability, so no gradient
    case EditOp::kSkip:
    case EditOp::kCallback:
      return;
  }
  for (size_t i = 0; i < x.size(); ++i) lane.data[entry(i) * lane.stride] = x[i];
}

// y = |x| z / |z| with z = x + v. With u = z / |z| the gradient g becomes
// u.g x / |x| + |x| / |z| (g - u.g u).
void EditProgram::differentiate_norm(const Lane& lane, std::span<const float> before,
                                     std::vector<float>& x) const {
  const float* operand = operand_at(lane);
  std::vector<double> steered(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    steered[i] = static_cast<double>(before[i]) +
                 edit_->coefficient * static_cast<double>(operand[i * operand_.by_entry]);
  }
  const double length = std::sqrt(dot(before, before));
  const double after = std::sqrt(dot(steered, steered));
  if (after == 0) return;  // nothing was scaled
  for (double& entry : steered) entry /= after;
  const double along = dot(steered, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double radial = length > 0 ? along * static_cast<double>(before[i]) / length : 0;
    const double across = static_cast<double>(x[i]) - along * steered[i];
    x[i] = static_cast<float>(radial + length / after * across);
  }
}

// A feature that is 0 does not move; others move along their rows of the encoder.
void EditProgram::differentiate_features(std::span<const float> before,
                                         std::vector<float>& x) const {
  const Autoencoder& autoencoder = *edit_->autoencoder;
  std::vector<double> sum(x.size());
  if (edit_->keep_error) std::copy(x.begin(), x.end(), sum.begin());
  const auto add = [&](size_t feature, double factor) {
    if (factor == 0 || autoencoder.feature(feature, before) == 0) return;
    const size_t at = feature * x.size();
    const double along = dot(x, std::span(autoencoder.decoder.floats).subspan(at, x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      sum[i] += factor * along * static_cast<double>(autoencoder.encoder.floats[at + i]);
  };
  const auto slope = [](const FeatureEdit& edit) {
    if (edit.kind == FeatureEdit::Kind::kSet) return 0.0;
    return edit.kind == FeatureEdit::Kind::kScale ? edit.number : 1.0;
  };
  if (edit_->keep_error) {
    for (const FeatureEdit& edit : edit_->features) add(edit.feature, slope(edit) - 1);
  } else {
    std::vector<double> slopes(autoencoder.features(), 1.0);
    for (const FeatureEdit& edit : edit_->features) slopes[edit.feature] = slope(edit);
    for (size_t j = 0; j < slopes.size(); ++j) add(j, slopes[j]);
  }
  std::transform(sum.begin(), sum.end(), x.begin(),
                 [](double entry) { return static_cast<float>(entry); });
}

// Of a row that was divided by its sum: (g - p.g) / sum, p the row afterwards.
void EditProgram::differentiate_sum(const Lane& lane, size_t number) const {
  const double sum = record_->sums[number];
  if (sum == 0) return;
  const float* row = record_->rows.data() + number * segment_.inner;
  double along = 0;
  for (size_t k = 0; k < lane.extent; ++k)
    along += static_cast<double>(row[k]) * static_cast<double>(lane.data[k]);
  for (size_t k = 0; k < lane.extent; ++k)
    lane.data[k] = static_cast<float>((static_cast<double>(lane.data[k]) - along) / sum);
}

}  // namespace phidias
