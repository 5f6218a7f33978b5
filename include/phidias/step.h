// The vocabulary of a step: sequences, rows, and what comes out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "phidias/image.h"
#include "phidias/options.h"
#include "phidias/tokenizer.h"

namespace phidias {

using SequenceId = uint64_t;

struct SequenceOptions {
  RopeSwitch rope_switch = RopeSwitch::kReprefill;
  // Tokens of the whole prompt, where it will come in several steps: LongRoPE's list is chosen by
  // it from the first chunk on. 0: not known.
  uint32_t prompt_tokens = 0;
  // The images that the sequence may show: the id -n is a token of the n-th. They must come from an
  // engine of the same model.
  std::vector<ImageHandle> images = {};
};

// One row of a step. Rows of a sequence must have consecutive positions, in order; the first is the
// sequence's length. Rows of different sequences may lie in any order.
struct Row {
  TokenId token = 0;  // below 0: of an image
  SequenceId sequence = 0;
  uint32_t position = 0;
  bool wants_output = false;
};

// Called with the logits [vocab] of each row that wants them, sequence by sequence as they first
// occur in the rows, each in order of position. The memory is reused.
using LogitsSink = std::function<void(size_t row, std::span<const float> logits)>;

struct MemoryPlan {
  uint64_t weights = 0;             // mapped or converted
  uint64_t cache_per_position = 0;  // 2 * layers * kv_heads * bytes of a head's vector
  uint64_t cache_at_context = 0;    // one sequence of the full context
  uint64_t cache_budget = 0;        // the most that pages may take, all sequences together
  uint64_t step_buffers = 0;        // for a step of step_rows rows
  uint32_t largest_context = 0;     // positions of one sequence that the budget holds
};

}  // namespace phidias
