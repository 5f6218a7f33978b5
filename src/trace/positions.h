// A choice of positions, resolved for one request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "phidias/values.h"

namespace phidias {

// Immutable.
class PositionSet {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // For a prompt of `prompt` tokens in a run of `rows` positions. A position that is chosen by its
  // token is chosen in the prompt. Errors: kInvalidArgument for positions beyond the run, chosen
  // twice, or none at all; `place` names what they belong to.
  static Result<PositionSet> resolve(const Positions& positions, std::span<const TokenId> prompt,
                                     size_t rows, const std::string& place);

  size_t size() const { return listed_.empty() ? end_ - begin_ : listed_.size(); }
  // Where a position stands in the selection; kNone where it does not.
  size_t index(size_t position) const {
    if (!listed_.empty()) return position < where_.size() ? where_[position] : kNone;
    return position >= begin_ && position < end_ ? position - begin_ : kNone;
  }
  // Whether they follow one another.
  bool contiguous() const { return listed_.empty(); }
  // The lowest position of the selection.
  size_t first() const {
    return listed_.empty() ? begin_ : *std::min_element(listed_.begin(), listed_.end());
  }
  // The position that stands at an index.
  size_t position(size_t index) const { return listed_.empty() ? begin_ + index : listed_[index]; }

 private:
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<size_t> listed_;  // where the selection is no range
  std::vector<size_t> where_;   // by position
};

}  // namespace phidias
