// A checkpoint, loaded: weights, tokenizer, chat template, and what its files say about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phidias/chat.h"
#include "phidias/options.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"
#include "phidias/values.h"

namespace phidias {

// The tower of a model that sees images.
struct VisionInfo {
  uint32_t num_layers = 0;  // that run
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  uint32_t num_heads = 0;
  uint32_t tile_size = 0;  // pixels along a side
  uint32_t patch_size = 0;
  uint32_t crops = 0;       // tiles that an image is cut into, at most
  uint32_t max_tokens = 0;  // of an image cut into so many
};

// Readable from a checkpoint's headers alone.
struct ModelInfo {
  std::string type;  // model_type or architecture
  std::string path;
  uint32_t num_layers = 0;
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t qk_head_dim = 0;
  uint32_t rotary_dim = 0;
  uint32_t vocab_size = 0;  // rows of the embedding, not tokens
  uint32_t max_context = 0;
  uint32_t original_context = 0;  // 0 without LongRoPE
  uint32_t window = 0;            // 0: every position is seen
  // Block-sparse attention: blocks of so many positions (0: none), of which the last
  // sparse_local_blocks are seen and every sparse_stride-th before them, in sparse_layers layers.
  uint32_t sparse_block = 0;
  uint32_t sparse_local_blocks = 0;
  uint32_t sparse_stride = 0;
  uint32_t sparse_layers = 0;
  uint32_t experts = 0;  // of each layer, 0 where there is one feed-forward block
  uint32_t experts_per_token = 0;
  double rope_theta = 0;
  double rope_magnitude = 1;        // of the long list
  std::string rope_factors_digest;  // of both LongRoPE lists, to tell files apart; empty without
  bool tied_head = false;
  std::optional<VisionInfo> vision;
  uint64_t parameters = 0;
  uint64_t weight_bytes = 0;
  uint64_t bytes_per_token = 0;  // of weights, read when decoding one token
  std::vector<std::pair<std::string, uint64_t>>
      weight_types;  // "BF16" -> bytes, in order of first use
  size_t tensors = 0;
  std::vector<std::string> files;
  std::vector<TokenId> stop_ids;
  std::vector<std::string> notices;  // how something was read that a user should know of
};

// Immutable and safe to share between threads and engines. Has the handles of its values as
// members: model->layers[3].self_attn.attention_probabilities.
class Model : public ModelValues {
 public:
  // A Hugging Face folder or a .gguf file. Every tensor is checked before anything is returned.
  // Errors: kNotFound, kCorrupt (all mismatches in one message), kUnsupported (model type, number
  // format), kIo.
  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& path,
                                                   const LoadOptions& options = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelInfo& info() const;
  // Null where the checkpoint has none.
  std::shared_ptr<const Tokenizer> tokenizer() const;
  // The file's own, else the family's where there is one, else null.
  std::shared_ptr<const ChatTemplate> chat_template() const;
  // Ids that end an answer: the union of what config, generation_config and tokenizer declare and
  // the family's own.
  const std::vector<TokenId>& stop_ids() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }
  explicit Model(std::unique_ptr<const Impl> impl);

 private:
  std::unique_ptr<const Impl> impl_;
};

// The chat template of a checkpoint that need not have weights: the file's own, else the family's.
// Errors: kNotFound where there is neither; those of reading the files.
Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const std::filesystem::path& path);

}  // namespace phidias
