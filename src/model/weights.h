// The weights of a model, bound to the tensors of a checkpoint.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "formats/checkpoint.h"
#include "model/spec.h"
#include "model/vision/weights.h"
#include "phidias/status.h"
#include "weights/binder.h"
#include "weights/matrix.h"

namespace phidias {

// Letters: V vocab, D width, H heads, K kv_heads, d head_dim, F ffn_width.
// E experts. Biases are empty where the model has none.
struct ExpertWeights {
  Matrix gate_up;  // [2 F, D]: gate rows, then up rows
  Matrix down;     // [D, F]
};
struct LayerWeights {
  std::vector<float> attention_norm, attention_norm_bias;  // [D]
  Matrix qkv;                   // [(H + 2K) d, D]: all queries, all keys, all values
  std::vector<float> qkv_bias;  // in the order of these rows
  Matrix attention_output;      // [D, H d]
  std::vector<float> attention_output_bias;
  std::vector<float> ffn_norm, ffn_norm_bias;  // [D]
  Matrix gate_up;  // [2 F, D]: gate rows, then up rows; alternating for kGegelu
  std::vector<float> gate_up_bias;
  Matrix down;  // [D, F]
  std::vector<float> down_bias;
  Matrix router;                       // [E, D]; with it there are experts in place of the above
  std::vector<ExpertWeights> experts;  // [E]
};

// Immutable after load, shared by all engines. Points into the mapped files that it keeps.
struct ModelWeights {
  Matrix embedding;  // [V, D]
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm, final_norm_bias;  // [D]
  Matrix head;                                     // [V, D]; the embedding where they are tied
  std::vector<float> head_bias;                    // [V]
  std::optional<VisionWeights> vision;
  std::vector<std::shared_ptr<const MappedFile>> mappings;

  // Every matrix once; the head is left out where it is the embedding.
  template <typename Visit>
  void for_each_matrix(const ModelSpec& spec, Visit&& visit) {
    visit(embedding);
    for (LayerWeights& layer : layers) {
      visit(layer.qkv);
      visit(layer.attention_output);
      if (spec.experts) {
        visit(layer.router);
        for (ExpertWeights& expert : layer.experts) {
          visit(expert.gate_up);
          visit(expert.down);
        }
      } else {
        visit(layer.gate_up);
        visit(layer.down);
      }
    }
    if (!spec.tied_head) visit(head);
    if (vision) vision->for_each_matrix(visit);
  }
  // Values of norms and biases.
  size_t vector_values() const;
  size_t bytes(const ModelSpec& spec) const;
  // Of these, what lies in mapped files.
  size_t mapped_bytes(const ModelSpec& spec) const;
  // Read for one token when decoding: everything but the embedding, of which one row, and but the
  // experts that are not picked.
  size_t bytes_per_token(const ModelSpec& spec) const;
};

// Names of the tensors in one kind of file; "{i}" is the layer's number, "{e}" the expert's.
// Experts without "{e}" are stacked in one tensor. A bias has its weight's name, but for the
// ending.
struct TensorNames {
  std::string_view embedding = {}, final_norm = {}, head = {};
  std::string_view attention_norm = {}, qkv = {}, query = {}, key = {}, value = {};
  std::string_view attention_output = {};
  std::string_view ffn_norm = {}, gate_up = {}, gate = {}, up = {}, down = {};
  std::string_view router = {}, expert_gate = {}, expert_up = {}, expert_down = {};
};
extern const TensorNames kHuggingFaceNames;
extern const TensorNames kGgufNames;

// A pattern filled in, and the name of a weight's bias (patterns too).
std::string tensor_name(std::string_view pattern, size_t layer, size_t expert = 0);
std::string bias_name(std::string_view weight);

// Where the queries, the keys and the values lie in a fused matrix of whole groups: ours in the
// order of theirs.
std::vector<RowSpan> grouped_rows(const AttentionSpec& attention);

// All names, shapes and formats are checked; every mismatch is in the one error.
Result<ModelWeights> bind_weights(const ModelSpec& spec, const TensorNames& names,
                                  const TensorSet& tensors);

}  // namespace phidias
