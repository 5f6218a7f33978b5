// The gradient through attention: from what the heads give to rotated queries, keys and values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "gradient/gradient.h"
#include "gradient/replay.h"
#include "model/run_context.h"
#include "model/spec.h"

namespace phidias {

struct AttentionGradientArgs {
  const ModelSpec& spec;
  size_t layer;
  size_t positions;                // N
  const uint32_t* first_keys;      // [N]
  const uint32_t* end_keys;        // [N]
  const float* qkv;                // [N, (H + 2K) d], rotated
  const float* heads_gradient;     // [N, H d]
  const EditedPatterns* patterns;  // null: they follow from queries and keys
  float* qkv_gradient;             // [N, (H + 2K) d], of rotated queries and keys
};

// Patterns are never whole, unless they were edited: a tile of queries of one head at a time, so
// memory grows with N times (tile + head_dim) for each thread. One task is a key-value head with
// its queries in ascending order, whatever the threads: a fixed order of summation.
class AttentionGradient {
 public:
  // `taps` sees the gradients of scores and probabilities where it asks for them.
  void run(RunContext& context, const AttentionGradientArgs& args, GradientTaps& taps);

 private:
  struct Scratch {
    AlignedBuffer<float> probabilities, gradient;  // [tile, N]
    AlignedBuffer<double> softmax;                 // [N], whole lanes
    AlignedBuffer<double> queries;                 // [tile, d]
    AlignedBuffer<double> keys, values;            // [N, d]
    AlignedBuffer<float> matmul;
  };
  std::vector<Scratch> scratch_;  // per thread
};

}  // namespace phidias
