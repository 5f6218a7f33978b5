// The buffers of one step, shared by the blocks that run one after another. They grow and are
// reused.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "model/batch.h"
#include "model/blocks/linear.h"
#include "model/rope.h"
#include "model/run_context.h"
#include "model/spec.h"
#include "model/weights.h"

namespace phidias {

// Rows of one sequence that attend together: with one key-value head, a task. Which rows share a
// tile changes no result.
struct AttentionTile {
  const BatchRun* run;
  size_t first_row;
  size_t rows;
};

// What AttentionArgs::visible points at, for one tile of rows and one key-value head.
struct VisibleBlocks {
  std::vector<const uint64_t*> lists;
  std::vector<uint64_t> bits;
};

// Of a layer with experts. E experts; P = 2 R passes through one, sorted by expert.
struct ExpertState {
  AlignedBuffer<float> logits;   // [R, E]
  std::vector<uint32_t> picks;   // [R, 2]
  AlignedBuffer<float> weights;  // [R, 2]
  std::vector<uint32_t> passes;  // [R, 2]: which pass each pick is
  std::vector<size_t> begin;     // [E + 1]: the first pass of each expert
  std::vector<size_t> next;      // [E]
  std::vector<RowGroup> groups;  // the passes of each expert that has any
  Activations inputs;            // [P, D]
  AlignedBuffer<float> outputs;  // [P, D]
};

// Letters: R rows of the step, D width, H heads, K kv_heads, d head_dim, F ffn_width, r
// rotary_dims.
struct StepState {
  size_t rows = 0;
  std::vector<uint32_t> positions;   // [R]
  std::vector<uint32_t> first_keys;  // [R]: the first key that the row sees
  std::vector<uint32_t> end_keys;    // [R]: one past the last
  AlignedBuffer<float> rotation;     // [R, 2, r/2]: cosines, then sines
  AlignedBuffer<float> stream;       // [R, D]: the residual stream
  Activations normed;                // [R, D]: what a projection reads
  AlignedBuffer<float> qkv;          // [R, (H + 2K) d]
  Activations heads;                 // [R, H d]: what each head gives
  AlignedBuffer<float> gate_up;      // [R, 2F]; with experts [P, 2F]
  Activations neurons;               // [R, F]; with experts [P, F]
  ExpertState experts;
  AlignedBuffer<float> contribution;  // [R, D]: what a block adds to the stream
  std::vector<std::vector<const std::byte*>>
      page_lists;                      // per thread: keys, then values of one head
  std::vector<VisibleBlocks> visible;  // per thread
  std::vector<AttentionTile> tiles;
};

// What a block works on.
struct BlockArgs {
  const ModelSpec& spec;
  const LayerWeights& weights;
  size_t layer;
  const KvLayout& layout;
  const Batch& batch;
  StepState& state;
  RunContext& context;
};

}  // namespace phidias
