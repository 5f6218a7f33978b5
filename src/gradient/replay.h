// One layer run again from its stored input, with every value kept that its gradient needs.
#pragma once

#include <cstddef>
#include <vector>

#include "base/memory.h"
#include "gradient/stored_run.h"
#include "model/kv_layout.h"
#include "model/rope.h"
#include "model/run_context.h"
#include "model/step_state.h"

namespace phidias {

// Probabilities of a layer whose scores or probabilities were edited, each [R, heads, R].
struct EditedPatterns {
  const float* softmax;  // of the edited scores
  const float* mixed;    // what the values were mixed with: the edited probabilities
};

// Letters as in step_state.h, R = N positions. Valid until the next run().
class LayerReplay {
 public:
  // All must outlive this; `context` has exact numerics. `edits` may be null. Throws
  // std::bad_alloc, as run() does.
  LayerReplay(const ModelSpec& spec, const ModelWeights& weights, const StoredRun& run,
              RunTaps* edits, RunContext& context);

  // By the forward's own blocks, so that each value has the bits of an exact forward.
  void run(size_t layer);

  // The values as the next step of the layer reads them, edits included; dense rows.
  const float* layer_input() const { return layer_input_.data(); }          // [R, D]
  const float* attention_input() const { return attention_input_.data(); }  // [R, D]: normed
  const float* qkv() const { return state_.qkv.data(); }                    // rotated
  const float* premix() const { return state_.heads.row(0); }               // [R, H d]
  const float* layer_mid() const { return layer_mid_.data(); }              // [R, D]
  const float* mlp_input() const { return state_.normed.row(0); }           // [R, D]
  const float* gate_up() const { return state_.gate_up.data(); }            // [R, 2 F]
  const float* activation() const { return activation_.data(); }            // [R, F]
  const float* neurons() const { return state_.neurons.row(0); }            // [R, F]

  // Of a layer with experts, whose gate_up() has a row for each pass.
  const ExpertState& experts() const { return state_.experts; }

  // Null where attention was left alone.
  const EditedPatterns* patterns() const { return edits_patterns_ ? &patterns_ : nullptr; }

  const uint32_t* first_keys() const { return state_.first_keys.data(); }
  const uint32_t* end_keys() const { return state_.end_keys.data(); }
  // [R, 2, r/2]: cosines, then sines.
  const float* rotation() const { return state_.rotation.data(); }
  size_t rotated_half() const { return rope_.half(); }

 private:
  class Taps;

  BatchRun whole_run() const;

  const ModelSpec* spec_;
  const ModelWeights* weights_;
  const StoredRun* run_;
  RunTaps* edits_;
  RunContext* context_;
  RopeTable rope_;
  KvLayout layout_;  // of one layer
  std::vector<AlignedBuffer<std::byte>> pages_;
  std::vector<std::byte*> page_pointers_;
  StepState state_;
  AlignedBuffer<float> layer_input_, attention_input_, layer_mid_, activation_;
  bool edits_patterns_ = false;
  AlignedBuffer<float> softmax_, mixed_;
  EditedPatterns patterns_ = {};
};

}  // namespace phidias
