#include "trace/edit_program.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/invalid.h"
#include "base/try.h"

namespace phidias {
namespace {

// Which values an operation makes sense at; nothing where at all.
std::string_view fault(const Edit& edit) {
  const ValueId id = edit.value.id;
  const bool pattern = info_of(id).layout == Layout::kPattern;
  const bool keys_or_values = id == ValueId::kAttentionKeys || id == ValueId::kAttentionValues;
  if (edit.from && edit.tensor == nullptr)
    return "is of another run, which there is not: give both in one document of runs";
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
  if (edit.probe != nullptr && edit.op == EditOp::kCallback)
    return "is a function, which has no condition beside it";
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

Result<SkipRange> resolve_skip(const Edit& edit, size_t number, const ModelSpec& spec) {
  const auto count = static_cast<int64_t>(spec.layers);
  const int64_t from = edit.skip_from < 0 ? edit.skip_from + count : edit.skip_from;
  const int64_t to = edit.skip_to < 0 ? edit.skip_to + count : edit.skip_to;
  const std::string place = "edit " + std::to_string(number + 1) + ", skip";
  Selection positions_alone;
  positions_alone.at = edit.value.selection.at;
  if (edit.value.selection != positions_alone || edit.probe != nullptr)
    return invalid("layers are skipped at positions, whole and without a condition", place);
  if (from < 0 || to < from || to >= count) {
    return invalid("the layers " + std::to_string(edit.skip_from) + " to " +
                       std::to_string(edit.skip_to) + " do not lie in order among " +
                       std::to_string(count),
                   place);
  }
  return SkipRange{static_cast<size_t>(from), static_cast<size_t>(to)};
}

Result<size_t> begin_of_skips(const Edits& edits, size_t first, const ModelSpec& spec) {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < edits.size(); ++i) {
      if (edits[i].op != EditOp::kSkip) continue;
      PHIDIAS_TRY(const SkipRange skip, resolve_skip(edits[i], i, spec));
      if (skip.from >= first || skip.to < first) continue;
      first = skip.from;
      moved = true;
    }
  }
  return first;
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

Result<std::vector<uint32_t>> resolve_or_all(const std::vector<int32_t>& wanted, size_t count,
                                             std::string_view axis, const std::string& place) {
  PHIDIAS_TRY(auto indices, resolve_indices(wanted, count, axis, place));
  if (indices.empty()) {
    indices.resize(count);
    std::iota(indices.begin(), indices.end(), 0U);
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
              resolve_or_all(selection.heads, program.segment_.groups, "head", place));
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
void EditProgram::apply_gathered(size_t head, const SiteRows& rows) const {
  std::vector<float> entries;
  for_each_selected(head, rows, [&](const Lane& lane) { apply_lane(lane, entries); });
}

}  // namespace phidias
