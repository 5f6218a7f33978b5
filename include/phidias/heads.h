// What attention heads look at.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "phidias/engine.h"
#include "phidias/status.h"
#include "phidias/tensors.h"

namespace phidias {

enum class HeadScore : uint8_t {
  kPrevious,   // attention to the position before
  kFirst,      // to the first position
  kInduction,  // to the position behind an earlier occurrence of the same token
  kDuplicate,  // to an earlier occurrence of the same token
  kCurrent,    // to itself
};
// "previous", ...
Result<HeadScore> head_score_from_name(std::string_view name);
// Mean attention of that kind, [layers, num_heads]; out of one pass; a few rows of one
// layer's pattern exist at a time. Errors: kInvalidArgument where no position counts (no token
// occurs twice), those of Engine::step.
Result<Tensor> head_scores(Engine& engine, const std::vector<TokenId>& ids, HeadScore score);

}  // namespace phidias
