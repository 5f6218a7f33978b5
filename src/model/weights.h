// The weights of a model, bound to the tensors of a checkpoint.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "formats/checkpoint.h"
#include "model/spec.h"
#include "phidias/status.h"
#include "weights/binder.h"
#include "weights/matrix.h"

namespace phidias {

// Letters: V vocab, D width, H heads, K kv_heads, d head_dim, F ffn_width.
struct LayerWeights {
  std::vector<float> attention_norm;  // [D]
  Matrix qkv;                         // [(H + 2K) d, D]: all queries, all keys, all values
  Matrix attention_output;            // [D, H d]
  std::vector<float> ffn_norm;        // [D]
  Matrix gate_up;                     // [2 F, D]: gate rows, then up rows
  Matrix down;                        // [D, F]
};

// Immutable after load, shared by all engines. Points into the mapped files that it keeps.
struct ModelWeights {
  Matrix embedding;  // [V, D]
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // [D]
  Matrix head;                    // [V, D]; the embedding where they are tied
  std::vector<std::shared_ptr<const MappedFile>> mappings;

  // Every matrix once; the head is left out where it is the embedding.
  template <typename Visit>
  void for_each_matrix(const ModelSpec& spec, Visit&& visit) {
    visit(embedding);
    for (LayerWeights& layer : layers) {
      for (Matrix* matrix : {&layer.qkv, &layer.attention_output, &layer.gate_up, &layer.down})
        visit(*matrix);
    }
    if (!spec.tied_head) visit(head);
  }
  size_t bytes(const ModelSpec& spec) const;
  // Of these, what lies in mapped files.
  size_t mapped_bytes(const ModelSpec& spec) const;
  // Read for one token when decoding: everything but the embedding, of which one row.
  size_t bytes_per_token(const ModelSpec& spec) const;
};

// Names of the tensors in one kind of file; "{i}" is the layer's number.
struct TensorNames {
  std::string_view embedding, final_norm, head;
  std::string_view attention_norm, qkv, query, key, value, attention_output;
  std::string_view ffn_norm, gate_up, gate, up, down;
};
extern const TensorNames kHuggingFaceNames;
extern const TensorNames kGgufNames;

// All names, shapes and formats are checked; every mismatch is in the one error.
Result<ModelWeights> bind_weights(const ModelSpec& spec, const TensorNames& names,
                                  const TensorSet& tensors);

}  // namespace phidias
