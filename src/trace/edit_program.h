// Edits, compiled for one request: what they do to each vector that they touch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/spec.h"
#include "model/taps.h"
#include "phidias/edits.h"
#include "trace/positions.h"
#include "trace/value_table.h"

namespace phidias {

// What edits and reads are compiled for.
struct RequestShape {
  const ModelSpec* spec = nullptr;
  std::span<const TokenId> prompt;
  size_t rows = 0;       // positions that will be computed, prompt and answer
  size_t step_rows = 0;  // of one pass
};

// The layers that an edit skips, first and last. Errors: kInvalidArgument.
struct SkipRange {
  size_t from;
  size_t to;
};
Result<SkipRange> resolve_skip(const Edit& edit, size_t number, const ModelSpec& spec);
// The layer, `first` or one before it, from which a pass meets what skipped layers hand through.
Result<size_t> begin_of_skips(const Edits& edits, size_t first, const ModelSpec& spec);

// The layers of a handle; {0} for a value on the model. Errors: kInvalidArgument.
Result<std::vector<size_t>> resolve_layers(const ValueRef& value, const ModelSpec& spec);
// Negative indices count back; empty stays empty. Errors: kInvalidArgument.
Result<std::vector<uint32_t>> resolve_indices(const std::vector<int32_t>& wanted, size_t count,
                                              std::string_view axis, const std::string& place);
// The same; empty is all.
Result<std::vector<uint32_t>> resolve_or_all(const std::vector<int32_t>& wanted, size_t count,
                                             std::string_view axis, const std::string& place);

// What a callback is told beside its rows.
struct PassState {
  uint32_t epoch = 0;
  std::span<const TokenId> tokens;  // of the sequence, up to the end of the rows
  bool* cancel = nullptr;
};

// What an edit that is not linear met in a run: its derivative depends on it.
struct EditRecord {
  std::vector<float> before;  // the selected vectors, [positions, heads, entries]
  std::vector<float> rows;    // renormalized ones, whole and afterwards: [positions, heads, keys]
  std::vector<double> sums;   // what they were divided by, 0 where they were not
};

// One edit at one layer. Immutable but for what it counts.
class EditProgram {
 public:
  // Errors: kInvalidArgument with the edit's number and value as the place; kUnsupported for a
  // value that the model lacks.
  static Result<EditProgram> compile(const Edit& edit, size_t number, size_t layer,
                                     const RequestShape& request);

  size_t number() const { return number_; }
  const Edit& edit() const { return *edit_; }
  size_t layer() const { return layer_; }
  ValueId id() const { return edit_->value.id; }

  // Rows of the value's site.
  void apply(const SiteRows& rows, const PassState& pass);
  void apply(const SitePattern& pattern, const PassState& pass);
  // One head's vectors of positions from 0 on, for an edit with EditScope::kCall. Counts nothing
  // and may be called by several threads at once.
  void apply_gathered(size_t head, const SiteRows& rows) const;
  // The gradient at the edited value becomes that at the value before: of rows of the value's site,
  // or of one head's rows of a pattern. For edits that EditDerivatives accepts.
  void differentiate(const SiteRows& gradient) const;
  void differentiate(size_t head, const SiteRows& gradient) const;
  // Bytes of the record that differentiate() needs of a run; 0: none.
  uint64_t record_bytes() const;
  // What apply() meets is kept in the record; differentiate() goes by it.
  void record(std::shared_ptr<EditRecord> record) { record_ = std::move(record); }
  std::shared_ptr<EditRecord> make_record() const;
  bool seen_by(size_t query) const { return queries_.index(query) != PositionSet::kNone; }
  size_t first_position() const { return at_.first(); }
  bool selects(size_t position) const { return at_.index(position) != PositionSet::kNone; }
  void touch(size_t position);

  size_t rows_touched() const { return touched_count_; }

 private:
  // One vector: numbers at `data` with `stride`, of which `channels_` (or all) are selected.
  struct Lane {
    float* data;
    size_t stride;
    size_t position;
    size_t index;  // of the position in the selection
    size_t group;  // index of the head in the selection
    size_t head;
    size_t extent;        // entries that are there
    const float* scores;  // of a pattern's row
  };
  struct Broadcast {
    const float* data = nullptr;
    size_t by_position = 0;
    size_t by_head = 0;
    size_t by_entry = 0;
  };

  Status compile_operands(const std::string& place);
  Status check_autoencoder(const std::string& place) const;
  Status compile_basis(const Tensor& directions, const std::string& place);
  Result<Broadcast> broadcast(const Tensor& tensor, const std::string& place) const;
  // The selected positions of one head's rows, where the edit selects that head.
  template <typename Visit>
  void for_each_selected(size_t head, const SiteRows& rows, Visit&& visit) const {
    const auto group = std::find(heads_.begin(), heads_.end(), head);
    if (group == heads_.end()) return;
    for (size_t r = 0; r < rows.rows; ++r) {
      const size_t position = rows.position + r;
      const size_t index = at_.index(position);
      if (index == PositionSet::kNone) continue;
      visit(Lane{rows.data + r * rows.stride, 1, position, index,
                 static_cast<size_t>(group - heads_.begin()), head, rows.width, nullptr});
    }
  }
  void apply_lane(const Lane& lane, std::vector<float>& x) const;
  void differentiate_lane(const Lane& lane, std::vector<float>& x) const;
  void differentiate_features(std::span<const float> before, std::vector<float>& x) const;
  void differentiate_norm(const Lane& lane, std::span<const float> before,
                          std::vector<float>& x) const;
  void differentiate_sum(const Lane& lane, size_t number) const;
  void hide_others(const Lane& lane) const;
  void change(const Lane& lane, std::vector<float>& x) const;
  void project(std::vector<float>& x) const;
  void call_back(View view, uint32_t position, size_t rows, const PassState& pass) const;
  size_t entry(size_t i) const { return entries_.empty() ? i : entries_[i]; }
  // The vector's number among those of a record.
  size_t number_of(const Lane& lane) const { return lane.index * heads_.size() + lane.group; }
  const float* operand_at(const Lane& lane) const {
    return operand_.data + lane.index * operand_.by_position + lane.group * operand_.by_head;
  }

  std::shared_ptr<const Edit> edit_;
  size_t number_ = 0;
  size_t layer_ = 0;
  bool pattern_ = false;
  Segment segment_;
  PositionSet at_;
  PositionSet queries_;
  std::vector<uint32_t> heads_;    // all that are selected
  std::vector<uint32_t> entries_;  // of the last axis: channels or keys; empty: all
  size_t entry_count_ = 0;         // how many are selected
  Broadcast operand_;
  std::vector<float> mean_;                 // kMean
  std::vector<std::vector<double>> basis_;  // orthonormal rows
  std::shared_ptr<EditRecord> record_;      // null: nothing is kept
  std::vector<bool> touched_;               // by position
  size_t touched_count_ = 0;
};

}  // namespace phidias
