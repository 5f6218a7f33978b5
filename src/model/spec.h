// Everything in which the models of the family differ, as data. A variant (variants/*.cpp) fills
// one from a checkpoint's configuration; the blocks read it; no name of a family is tested anywhere
// else.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model/vision/spec.h"

namespace phidias {

// LongRoPE: two lists of divisors of the inverse frequencies and the length up to which the short
// one holds. Source: models.md of the reference, section 3.2; transformers' modeling_rope_utils.
struct LongRope {
  std::vector<float> short_factors;  // rotary_dims / 2 each
  std::vector<float> long_factors;
  uint32_t original_context =
      0;  // the short list holds while a sequence has at most so many positions
  double short_magnitude = 1;  // factor of cos and sin under either list
  double long_magnitude = 1;
};

struct RopeSpec {
  double theta = 10000;
  double position_scale = 1;  // of positions, where there is one list only
  uint32_t rotary_dims = 0;   // of each head, from its start; the rest is not rotated
  std::optional<LongRope> long_rope;
};

// Blocks of positions, of which a head sees the last ones and every stride-th before them. Blocks
// begin at multiples of their size in the sequence. Source: models-other.md of the reference,
// section 4.2.
struct BlockSparse {
  uint32_t block = 0;         // positions in a block
  uint32_t local_blocks = 0;  // how many of the last are seen, the query's own counted; not 0
  uint32_t stride = 0;        // not 0
  uint32_t head_step = 0;     // by so many blocks the seen ones move from head to head
  uint32_t dense_every = 0;   // layer l sees everything where (l + 1) % dense_every == 0; 0: none

  // Blocks [64 word, 64 word + 64) of keys, one bit each.
  uint64_t bits(size_t head, size_t query_block, size_t word) const {
    const size_t begin = word * 64;
    const size_t end = std::min(begin + 64, query_block + 1);
    uint64_t result = 0;
    const size_t residue = stride - 1 - head * head_step % stride;
    for (size_t block_at = begin + (residue + stride - begin % stride) % stride; block_at < end;
         block_at += stride) {
      result |= uint64_t{1} << (block_at - begin);
    }
    const size_t local = query_block + 1 - std::min<size_t>(query_block + 1, local_blocks);
    for (size_t block_at = std::max(begin, local); block_at < end; ++block_at)
      result |= uint64_t{1} << (block_at - begin);
    return result;
  }
  bool dense(size_t layer) const { return dense_every > 0 && (layer + 1) % dense_every == 0; }
  bool sees_block(size_t head, size_t query_block, size_t key_block) const {
    return key_block <= query_block && (query_block - key_block < local_blocks ||
                                        (key_block + head * head_step + 1) % stride == 0);
  }
};

// Which keys a query sees. None after itself; all before it, but for a window or blocks.
struct MaskSpec {
  uint32_t window = 0;  // itself and the window - 1 positions before it; 0: all of them
  std::optional<BlockSparse> blocks = std::nullopt;

  uint32_t first_key(uint32_t position) const {
    return window == 0 || position < window ? 0 : position - window + 1;
  }
  // Whether keys within [first_key, position] may be hidden in this layer.
  bool sparse(size_t layer) const { return blocks && !blocks->dense(layer); }
  bool sees(size_t layer, size_t head, uint32_t position, uint32_t key) const {
    return key <= position && key >= first_key(position) &&
           (!sparse(layer) ||
            blocks->sees_block(head, position / blocks->block, key / blocks->block));
  }
};

struct AttentionSpec {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  float scale = 0;  // of the scores; 0: head_dim^-0.5

  float score_scale() const {
    return scale != 0 ? scale : 1.0F / std::sqrt(static_cast<float>(head_dim));
  }
  uint32_t query_width() const { return heads * head_dim; }
  uint32_t kv_width() const { return kv_heads * head_dim; }
  uint32_t qkv_width() const { return query_width() + 2 * kv_width(); }
  uint32_t group() const { return heads / kv_heads; }
};

enum class Norm : uint8_t {
  kRms,    // x / sqrt(mean(x^2) + epsilon) * weight
  kLayer,  // (x - mean) / sqrt(variance + epsilon) * weight + bias
};

// What a feed-forward block makes of its two branches.
enum class Gating : uint8_t {
  kSilu,    // up * silu(gate); gate rows, then up rows
  kGegelu,  // gate * sigmoid(1.702 gate) * (up + 1), both clamped; gate and up rows in turn
};

// Several feed-forward blocks a layer, of which each row passes two: a router's logits choose them
// (blocks/routing.h).
struct ExpertsSpec {
  uint32_t count = 0;  // at least 2
  float band = 0;      // a logit further below the largest than this share of itself has no weight

  static constexpr uint32_t kPerRow = 2;
};

// Which projections have a bias.
struct BiasSpec {
  bool qkv = false;
  bool attention_output = false;
  bool ffn = false;
  bool head = false;
};

struct TensorNames;

struct ModelSpec {
  std::string type;  // the variant's name in the registry
  uint32_t vocab = 0;
  uint32_t width = 0;
  uint32_t layers = 0;
  uint32_t ffn_width = 0;  // of one expert where there are several
  Norm norm = Norm::kRms;
  float norm_epsilon = 1e-5F;
  AttentionSpec attention;
  MaskSpec mask;
  RopeSpec rope;
  Gating gating = Gating::kSilu;
  float gating_limit = std::numeric_limits<float>::infinity();  // of kGegelu's branches
  std::optional<ExpertsSpec> experts;
  BiasSpec bias;
  float embedding_scale = 1;        // the stream begins as the embedding times this
  float logit_divisor = 1;          // the logits are the head's output divided by this,
  std::vector<int32_t> masked_ids;  // and at these ids the lowest finite number; below vocab
  bool tied_head = false;
  std::optional<VisionSpec> vision;  // the tower of a model that sees images
  uint32_t max_context = 0;          // positions that the checkpoint states to support

  // How the file stores the model, as far as its configuration says so.
  const TensorNames* tensor_names = nullptr;
  bool interleaved_rotation = false;  // rows of q and k lie in the order of interleaved rotation
  // Rows of the fused q, k, v lie group by group: a key-value head's queries, its key, its value.
  bool grouped_qkv = false;
  std::vector<int32_t> end_ids;  // end-of-text ids that the configuration declares
  std::optional<int32_t> bos_id;
  std::string chat_template;  // of text/builtin_templates.h, for files that carry none; empty:
                              // there is none
  std::vector<std::string> notices;  // what a user should know about how the configuration was read
};

}  // namespace phidias
