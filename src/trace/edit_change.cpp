// What an edit does to one vector.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "kernels/attention_explicit.h"
#include "trace/edit_program.h"
#include "trace/vector_math.h"

namespace phidias {
namespace {

// A standard normal number of a position and a channel (Box and Muller, 1958): the same in any
// batch.
double normal(uint64_t seed, size_t position, size_t channel) {
  const RandomKey key =
      draw_key(seed, static_cast<uint32_t>(channel), static_cast<uint32_t>(position));
  const uint32_t ids[2] = {0, 1};
  uint64_t bits[2];
  draw_bits(key, ids, bits);
  return std::sqrt(-2 * portable_log(open_uniform(bits[0]))) *
         std::cos(2 * std::numbers::pi * open_uniform(bits[1]));
}

}  // namespace

// Gathers the selected entries, changes them, and puts them back: in patterns, where the mask
// allows.
void EditProgram::apply_lane(const Lane& lane, std::vector<float>& x) const {
  const bool scores = id() == ValueId::kAttentionScores;
  const size_t count = entries_.empty() ? std::min(entry_count_, lane.extent) : entry_count_;
  x.resize(count);
  for (size_t i = 0; i < count; ++i) {
    // A key that comes after this pass is as good as hidden.
    x[i] = entry(i) < lane.extent ? lane.data[entry(i) * lane.stride] : scores ? kHiddenScore : 0;
  }
  if (record_ != nullptr)
    std::copy(x.begin(), x.end(), record_->before.data() + number_of(lane) * entry_count_);
  if (edit_->probe != nullptr && !(dot(x, edit_->probe->floats) > edit_->threshold)) return;
  if (edit_->op == EditOp::kOnly) return hide_others(lane);
  change(lane, x);
  for (size_t i = 0; i < count; ++i) {
    const size_t e = entry(i);
    if (e >= lane.extent) continue;
    if (pattern_ && !edit_->lift && lane.scores[e] == kHiddenScore) continue;
    lane.data[e * lane.stride] = x[i];
  }
  if (!edit_->renormalize) return;
  double sum = 0;
  for (size_t k = 0; k < lane.extent; ++k) sum += static_cast<double>(lane.data[k]);
  for (size_t k = 0; sum != 0 && k < lane.extent; ++k)
    lane.data[k] = static_cast<float>(static_cast<double>(lane.data[k]) / sum);
  if (record_ == nullptr) return;
  record_->sums[number_of(lane)] = sum;
  std::copy_n(lane.data, lane.extent, record_->rows.data() + number_of(lane) * segment_.inner);
}

void EditProgram::hide_others(const Lane& lane) const {
  std::vector<bool> kept(lane.extent, entries_.empty());
  for (const uint32_t key : entries_) {
    if (key < lane.extent) kept[key] = true;
  }
  for (size_t key = 0; key < lane.extent; ++key) {
    if (!kept[key]) lane.data[key] = kHiddenScore;
  }
}

// x = what the basis spans of it.
void EditProgram::project(std::vector<float>& x) const {
  std::vector<double> part(x.size());
  for (const std::vector<double>& direction : basis_) {
    const double along = dot(x, direction);
    for (size_t i = 0; i < x.size(); ++i) part[i] += along * direction[i];
  }
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(part[i]);
}

void EditProgram::change(const Lane& lane, std::vector<float>& x) const {
  const float* operand = operand_.data == nullptr ? nullptr : operand_at(lane);
  const auto given = [&](size_t i) {
    return edit_->coefficient * static_cast<double>(operand[i * operand_.by_entry]);
  };
  switch (edit_->op) {
    case EditOp::kSet:
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(given(i));
      break;
    case EditOp::kAdd:
      // The product is rounded first, the sum second, as with arrays of floats.
      for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(given(i));
      break;
    case EditOp::kScale:
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] *= static_cast<float>(operand != nullptr ? given(i) : edit_->coefficient);
      }
      break;
    case EditOp::kZero:
      std::fill(x.begin(), x.end(), 0.0F);
      break;
    case EditOp::kMean:
      std::copy_n(mean_.begin(), x.size(), x.begin());
      break;
    case EditOp::kProjectOut: {
      std::vector<float> part = x;
      project(part);
      for (size_t i = 0; i < x.size(); ++i) x[i] -= part[i];
      break;
    }
    case EditOp::kKeepOnly:
      project(x);
      break;
    case EditOp::kSwapSubspace: {
      std::vector<float> difference(x.size());
      for (size_t i = 0; i < x.size(); ++i)
        difference[i] = static_cast<float>(given(i) - static_cast<double>(x[i]));
      project(difference);
      for (size_t i = 0; i < x.size(); ++i) x[i] += difference[i];
      break;
    }
    case EditOp::kSteer: {
      const double before = norm_of(x);
      for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(given(i));
      const double after = norm_of(x);
      if (!edit_->keep_norm || after == 0) break;
      for (float& entry : x)
        entry = static_cast<float>(static_cast<double>(entry) * before / after);
      break;
    }
    case EditOp::kClamp:
      for (float& entry : x) {
        entry = static_cast<float>(std::clamp(static_cast<double>(entry), edit_->low, edit_->high));
      }
      break;
    case EditOp::kNoise:
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t channel = lane.head * segment_.inner + entry(i);
        x[i] += static_cast<float>(edit_->sigma * normal(edit_->seed, lane.position, channel));
      }
      break;
    case EditOp::kLowRank: {
      const std::vector<float>& a = edit_->tensor->floats;
      const std::vector<float>& b = edit_->second->floats;
      const size_t rank = a.size() / entry_count_;
      std::vector<double> inside(rank);
      for (size_t r = 0; r < rank; ++r)
        inside[r] = dot(x, std::span(a).subspan(r * entry_count_, entry_count_));
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] += static_cast<float>(edit_->coefficient *
                                   dot(inside, std::span(b).subspan(i * rank, rank)));
      }
      break;
    }
    case EditOp::kSae:
      edit_features(*edit_->autoencoder, edit_->features, edit_->keep_error, x);
      break;
    case EditOp::kHide:
      std::fill(x.begin(), x.end(), kHiddenScore);
      break;
    case EditOp::kUniform: {
      size_t visible = 0;
      for (size_t k = 0; k < lane.extent; ++k) visible += lane.scores[k] == kHiddenScore ? 0 : 1;
      const auto weight = static_cast<float>(1.0 / static_cast<double>(visible));
      if (visible > 0) std::fill(x.begin(), x.end(), weight);
      break;
    }
    case EditOp::kOnly:
    case EditOp::kSkip:
    case EditOp::kCallback:
      break;
  }
}

}  // namespace phidias
