#include "trace/edit_program.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "base/try.h"
#include "kernels/attention_explicit.h"

namespace phidias {
namespace {

Error invalid(std::string message, const std::string& place) {
  return {Code::kInvalidArgument, std::move(message), {{}, {}, place}};
}

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

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

bool all_finite(const Tensor& tensor) {
  return std::all_of(tensor.floats.begin(), tensor.floats.end(),
                     [](float x) { return std::isfinite(x); });
}

double norm_of(std::span<const float> x) {
  double sum = 0;
  for (const float entry : x) sum += static_cast<double>(entry) * static_cast<double>(entry);
  return std::sqrt(sum);
}

template <typename A, typename B>
double dot(const A& a, const B& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Which values an operation makes sense at; nothing where at all.
std::string_view fault(const Edit& edit) {
  const ValueId id = edit.value.id;
  const bool pattern = info_of(id).layout == Layout::kPattern;
  const bool keys_or_values = id == ValueId::kAttentionKeys || id == ValueId::kAttentionValues;
  switch (edit.op) {
    case EditOp::kHide:
    case EditOp::kOnly:
      if (id != ValueId::kAttentionScores) return "hides keys, which attention_scores alone has";
      break;
    case EditOp::kUniform:
      if (id != ValueId::kAttentionProbabilities)
        return "spreads attention, which attention_probabilities alone has";
      break;
    case EditOp::kSet:
    case EditOp::kAdd:
    case EditOp::kMean:
    case EditOp::kProjectOut:
    case EditOp::kKeepOnly:
    case EditOp::kSteer:
      if (edit.tensor == nullptr) return "has no tensor";
      break;
    case EditOp::kSwapSubspace:
    case EditOp::kLowRank:
      if (edit.tensor == nullptr || edit.second == nullptr) return "needs two tensors";
      break;
    case EditOp::kSae:
      if (edit.autoencoder == nullptr) return "has no autoencoder";
      if (pattern || !edit.value.selection.channels.empty())
        return "is of whole vectors, which a pattern and a choice of channels have not";
      break;
    case EditOp::kClamp:
      if (!(edit.low <= edit.high)) return "clamps to an empty range";
      break;
    case EditOp::kNoise:
      if (!(edit.sigma >= 0) || !std::isfinite(edit.sigma)) return "needs a sigma of 0 or more";
      break;
    case EditOp::kCallback:
      if (!edit.callback) return "has no function";
      break;
    case EditOp::kScale:
    case EditOp::kZero:
    case EditOp::kSkip:
      break;
  }
  if (edit.scope == EditScope::kCall && !keys_or_values)
    return "has scope \"call\", which is for attention_keys and attention_values";
  if (edit.scope == EditScope::kCall && edit.op == EditOp::kCallback)
    return "is a function, which cannot have scope \"call\"";
  if (edit.lift && !pattern) return "lifts a mask, which scores and probabilities alone have";
  if (edit.renormalize && id != ValueId::kAttentionProbabilities)
    return "renormalizes, which attention_probabilities alone can be";
  if (!pattern && edit.value.selection.keys != Positions())
    return "selects keys, which scores and probabilities alone have";
  if (!std::isfinite(edit.coefficient)) return "has a coefficient that is no finite number";
  return {};
}

}  // namespace

Result<std::vector<size_t>> resolve_layers(const ValueRef& value, const ModelSpec& spec) {
  const Module module = info_of(value.id).module;
  if (on_model(value.id)) return std::vector<size_t>{0};
  const auto count = static_cast<int64_t>(
      module == Module::kVisionLayer ? (spec.vision ? spec.vision->layers : 0) : spec.layers);
  const auto absolute = [&](int64_t layer) { return layer < 0 ? layer + count : layer; };
  int64_t begin = absolute(value.layers.begin);
  int64_t end = begin + 1;
  if (!value.layers.single)
    end = value.layers.end == LayerRange{}.end ? count : absolute(value.layers.end);
  if (begin < 0 || begin >= end || end > count) {
    return invalid("the model has layers 0 to " + std::to_string(count - 1), value.to_string());
  }
  std::vector<size_t> layers(static_cast<size_t>(end - begin));
  std::iota(layers.begin(), layers.end(), static_cast<size_t>(begin));
  return layers;
}

Result<std::vector<uint32_t>> resolve_indices(const std::vector<int32_t>& wanted, size_t count,
                                              std::string_view axis, const std::string& place) {
  std::vector<uint32_t> indices;
  std::vector<bool> taken(count);
  for (const int32_t index : wanted) {
    const int64_t absolute = index < 0 ? index + static_cast<int64_t>(count) : index;
    if (absolute < 0 || absolute >= static_cast<int64_t>(count)) {
      return invalid("there is no " + std::string(axis) + " " + std::to_string(index) +
                         "; there are " + std::to_string(count),
                     place);
    }
    if (taken[static_cast<size_t>(absolute)])
      return invalid(std::string(axis) + " " + std::to_string(index) + " is chosen twice", place);
    taken[static_cast<size_t>(absolute)] = true;
    indices.push_back(static_cast<uint32_t>(absolute));
  }
  return indices;
}

Result<EditProgram> EditProgram::compile(const Edit& edit, size_t number, size_t layer,
                                         const RequestShape& request) {
  const std::string place = "edit " + std::to_string(number + 1) + ", " + edit.value.to_string();
  const ValueInfo& info = info_of(edit.value.id);
  if (!info.writable) {
    return invalid(info.id == ValueId::kNextTokenProbs ? "cannot be written; write logits"
                   : info.id == ValueId::kInputSize    ? "cannot be written; write input_ids"
                                                       : "cannot be written: it is derived",
                   place);
  }
  if (const auto missing = missing_value(info.id, *request.spec))
    return Error{Code::kUnsupported, *missing, {{}, {}, place}};
  if (const std::string_view wrong = fault(edit); !wrong.empty())
    return invalid("the edit " + std::string(wrong), place);
  if (edit.lift && request.prompt.size() > request.step_rows) {
    return Error{Code::kCapacityExceeded,
                 "a lifted mask needs the whole prompt in one pass, which takes " +
                     std::to_string(request.step_rows) + " rows",
                 {{}, {}, place}};
  }
  EditProgram program;
  program.edit_ = std::make_shared<const Edit>(edit);
  program.number_ = number;
  program.layer_ = layer;
  program.pattern_ = info.layout == Layout::kPattern;
  program.segment_ = source_of(info.id).segment(*request.spec);
  if (program.pattern_) program.segment_.inner = request.rows;
  const Selection& selection = edit.value.selection;
  PHIDIAS_TRY(program.at_, PositionSet::resolve(selection.at, request.prompt, request.rows, place));
  PHIDIAS_TRY(program.queries_,
              PositionSet::resolve(edit.queries, request.prompt, request.rows, place));
  PHIDIAS_TRY(program.heads_,
              resolve_indices(selection.heads, program.segment_.groups, "head", place));
  if (program.heads_.empty()) {
    program.heads_.resize(program.segment_.groups);
    std::iota(program.heads_.begin(), program.heads_.end(), 0U);
  }
  PHIDIAS_TRY(program.entries_,
              resolve_indices(selection.channels, program.segment_.inner, "channel", place));
  if (program.pattern_ && selection.keys != Positions()) {
    PHIDIAS_TRY(const PositionSet keys,
                PositionSet::resolve(selection.keys, request.prompt, request.rows, place));
    for (size_t i = 0; i < keys.size(); ++i)
      program.entries_.push_back(static_cast<uint32_t>(keys.position(i)));
  }
  program.entry_count_ =
      program.entries_.empty() ? program.segment_.inner : program.entries_.size();
  program.touched_.resize(request.rows);
  PHIDIAS_CHECK_OK(program.compile_operands(place));
  return program;
}

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
  const Status fits = edit_->autoencoder->check();
  if (!fits.ok()) return invalid(fits.error().message, place);
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

void EditProgram::touch(size_t position) {
  if (touched_[position]) return;
  touched_[position] = true;
  ++touched_count_;
}

void EditProgram::call_back(View view, uint32_t position, size_t rows,
                            const PassState& pass) const {
  view.layout = info_of(id()).layout;
  edit_->callback(view, {id(), layer_, position, rows, pass.epoch, pass.tokens, pass.cancel});
}

void EditProgram::apply(const SiteRows& rows, const PassState& pass) {
  std::vector<float> entries;
  size_t run = 0;  // selected rows in a row, for callbacks
  for (size_t r = 0; r <= rows.rows; ++r) {
    const size_t position = rows.position + r;
    const size_t index = r < rows.rows ? at_.index(position) : PositionSet::kNone;
    if (edit_->op == EditOp::kCallback) {
      if (index != PositionSet::kNone) {
        touch(position);
        ++run;
        continue;
      }
      if (run == 0) continue;
      View view;
      view.data = rows.data + (r - run) * rows.stride + segment_.offset;
      const Layout layout = info_of(id()).layout;
      if (layout == Layout::kHeadOutputs) {
        view.shape = {run, segment_.groups, segment_.inner};
        view.strides = {rows.stride, segment_.group_stride, segment_.inner_stride};
      } else if (has_heads(layout)) {
        view.shape = {segment_.groups, run, segment_.inner};
        view.strides = {segment_.group_stride, rows.stride, segment_.inner_stride};
      } else {
        view.shape = {run, segment_.inner};
        view.strides = {rows.stride, segment_.inner_stride};
      }
      call_back(std::move(view), static_cast<uint32_t>(position - run), run, pass);
      run = 0;
      continue;
    }
    if (index == PositionSet::kNone) continue;
    touch(position);
    float* row = rows.data + r * rows.stride + segment_.offset;
    for (size_t g = 0; g < heads_.size(); ++g) {
      apply_lane({row + heads_[g] * segment_.group_stride, segment_.inner_stride, position, index,
                  g, heads_[g], segment_.inner, nullptr},
                 entries);
    }
  }
}

void EditProgram::apply(const SitePattern& pattern, const PassState& pass) {
  std::vector<float> entries;
  for (size_t r = 0; r < pattern.rows; ++r) {
    const size_t position = pattern.position + r;
    const size_t index = at_.index(position);
    if (index == PositionSet::kNone) continue;
    touch(position);
    if (edit_->op == EditOp::kCallback) {
      View view;
      view.data = pattern.data + r * pattern.heads * pattern.keys;
      view.shape = {pattern.heads, 1, pattern.keys};
      view.strides = {pattern.keys, pattern.heads * pattern.keys, 1};
      call_back(std::move(view), static_cast<uint32_t>(position), 1, pass);
      continue;
    }
    for (size_t g = 0; g < heads_.size(); ++g) {
      const size_t offset = (r * pattern.heads + heads_[g]) * pattern.keys;
      apply_lane({pattern.data + offset, 1, position, index, g, heads_[g], pattern.keys,
                  pattern.scores + offset},
                 entries);
    }
  }
}

// Gathers the selected entries, changes them, and puts them back: in patterns, where the mask
// allows.
void EditProgram::apply_lane(const Lane& lane, std::vector<float>& x) const {
  if (edit_->op == EditOp::kOnly) return hide_others(lane);
  const bool scores = id() == ValueId::kAttentionScores;
  const size_t count = entries_.empty() ? std::min(entry_count_, lane.extent) : entry_count_;
  x.resize(count);
  for (size_t i = 0; i < count; ++i) {
    // A key that comes after this pass is as good as hidden.
    x[i] = entry(i) < lane.extent ? lane.data[entry(i) * lane.stride] : scores ? kHiddenScore : 0;
  }
  if (edit_->probe != nullptr && !(dot(x, edit_->probe->floats) > edit_->threshold)) return;
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
  const float* operand = operand_.data;
  if (operand != nullptr)
    operand += lane.index * operand_.by_position + lane.group * operand_.by_head;
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

void EditProgram::apply_gathered(size_t head, const SiteRows& rows) const {
  std::vector<float> entries;
  for_each_selected(head, rows, [&](const Lane& lane) { apply_lane(lane, entries); });
}

}  // namespace phidias
