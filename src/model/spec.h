// Everything in which the models of the family differ, as data. A variant (variants/*.cpp) fills
// one from a checkpoint's configuration; the blocks read it; no name of a family is tested anywhere
// else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  uint32_t rotary_dims = 0;  // of each head, from its start; the rest is not rotated
  std::optional<LongRope> long_rope;
};

// A query sees itself and the window - 1 positions before it; 0: all of them.
struct MaskSpec {
  uint32_t window = 0;

  uint32_t first_key(uint32_t position) const {
    return window == 0 || position < window ? 0 : position - window + 1;
  }
};

struct AttentionSpec {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;

  uint32_t query_width() const { return heads * head_dim; }
  uint32_t kv_width() const { return kv_heads * head_dim; }
  uint32_t qkv_width() const { return query_width() + 2 * kv_width(); }
  uint32_t group() const { return heads / kv_heads; }
};

struct ModelSpec {
  std::string type;  // the variant's name in the registry
  uint32_t vocab = 0;
  uint32_t width = 0;
  uint32_t layers = 0;
  uint32_t ffn_width = 0;
  float norm_epsilon = 1e-5F;
  AttentionSpec attention;
  MaskSpec mask;
  RopeSpec rope;
  bool tied_head = false;
  uint32_t max_context = 0;  // positions that the checkpoint states to support

  // How the file stores the model, as far as its configuration says so.
  bool interleaved_rotation = false;  // rows of q and k lie in the order of interleaved rotation
  std::vector<int32_t> end_ids;       // end-of-text ids that the configuration declares
  std::optional<int32_t> bos_id;
  std::string chat_template;  // of text/builtin_templates.h, for files that carry none; empty:
                              // there is none
  std::vector<std::string> notices;  // what a user should know about how the configuration was read
};

}  // namespace phidias
