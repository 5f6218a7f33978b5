// Phi-3-small, 8k and 128k: layer norms and biases, grouped queries whose rows lie group by group,
// GEGLU with a limit, muP scales, and block-sparse attention in every layer that is not one of the
// dense ones. Source: models-other.md of the reference, section 4 (no library holds this model).
#include <algorithm>

#include "base/try.h"
#include "model/config.h"
#include "model/variants/variants.h"
#include "model/weights.h"

namespace phidias {
namespace {

const TensorNames kNames{
    .embedding = "model.embed_tokens.weight",
    .final_norm = "model.final_layernorm.weight",
    .head = "lm_head.weight",
    .attention_norm = "model.layers.{i}.input_layernorm.weight",
    .qkv = "model.layers.{i}.self_attn.query_key_value.weight",
    .attention_output = "model.layers.{i}.self_attn.dense.weight",
    .ffn_norm = "model.layers.{i}.post_attention_layernorm.weight",
    .gate_up = "model.layers.{i}.mlp.up_proj.weight",
    .down = "model.layers.{i}.mlp.down_proj.weight",
};

// Ids of the vocabulary that stand for nothing: their logits are masked. Between the first and the
// last, these are used.
constexpr int32_t kFirstUnused = 100256;
constexpr int32_t kLastUnused = 100351;
constexpr int32_t kUsed[] = {100257, 100261, 100262, 100263, 100266};

std::vector<int32_t> masked_ids(uint32_t vocab) {
  std::vector<int32_t> ids;
  for (int32_t id = kFirstUnused; id <= kLastUnused && id < static_cast<int32_t>(vocab); ++id) {
    if (std::find(std::begin(kUsed), std::end(kUsed), id) == std::end(kUsed)) ids.push_back(id);
  }
  return ids;
}

// Stated, or as the published configuration class derives it.
Result<uint32_t> ffn_width(const JsonReader& config, uint32_t width) {
  const bool stated = config.has("ff_intermediate_size");
  if (stated == config.has("ff_dim_multiplier")) {
    return config.error(Code::kCorrupt,
                        stated ? "and ff_dim_multiplier are both there; keep the right one"
                               : "is missing, and so is ff_dim_multiplier",
                        "ff_intermediate_size");
  }
  if (stated) return size_value(config, "ff_intermediate_size");
  PHIDIAS_TRY(const uint64_t multiplier, size_value(config, "ff_dim_multiplier"));
  PHIDIAS_TRY(const auto padded, config.optional_bool("gegelu_pad_to_256"));
  uint64_t result = multiplier * (width / 3) * 2;
  if (padded.value_or(true)) result = (result + 255) / 256 * 256;
  if (result == 0 || result > kMaxSize) {
    return config.error(Code::kCorrupt, "gives " + std::to_string(result) + " neurons",
                        "ff_dim_multiplier");
  }
  return static_cast<uint32_t>(result);
}

Result<BlockSparse> blocks_from_config(const JsonReader& config, uint32_t heads) {
  BlockSparse blocks;
  PHIDIAS_TRY(blocks.block, size_value(config, "blocksparse_block_size"));
  PHIDIAS_TRY(blocks.local_blocks, size_value(config, "blocksparse_num_local_blocks"));
  PHIDIAS_TRY(blocks.stride, size_value(config, "blocksparse_vert_stride"));
  PHIDIAS_TRY(const auto same, config.optional_bool("blocksparse_homo_head_pattern"));
  blocks.head_step = same.value_or(false) ? 0 : std::max(1U, blocks.stride / heads);
  if (config.has("dense_attention_every_n_layers")) {
    PHIDIAS_TRY(const auto every, config.optional_unsigned("dense_attention_every_n_layers"));
    blocks.dense_every = static_cast<uint32_t>(std::min<uint64_t>(*every, kMaxSize));
  }
  return blocks;
}

// A factor that is not used where it is absent or 0.
Result<float> factor_or(const JsonReader& config, std::string_view key, float otherwise) {
  PHIDIAS_TRY(const auto stated, config.optional_number(key));
  if (!stated || *stated == 0) return otherwise;
  if (!(*stated > 0 && *stated < kMaxSize))
    return config.error(Code::kCorrupt, "must be a positive number, or null", key);
  return static_cast<float>(*stated);
}

Result<LongRope> rope_lists(const JsonReader& config, const JsonReader& rope,
                            const ModelSpec& spec) {
  PHIDIAS_TRY(LongRope lists, long_rope_from_config(config, rope, spec, spec.max_context));
  PHIDIAS_TRY(const auto for_short, rope.optional_number("short_mscale"));
  PHIDIAS_TRY(const auto for_long, rope.optional_number("long_mscale"));
  const double original = lists.original_context;
  // The two differ where they are not stated, and -1 is a way not to state them.
  lists.short_magnitude = for_short.value_or(-1) > 0 ? *for_short : 1.0;
  lists.long_magnitude = for_long.value_or(-1) > 0
                             ? *for_long
                             : long_rope_magnitude(spec.max_context / original, original);
  return lists;
}

}  // namespace

Result<ModelSpec> phi3small_from_config(const JsonReader& config) {
  PHIDIAS_TRY(ModelSpec spec, sizes_from_config(config, true));
  spec.tensor_names = &kNames;
  spec.grouped_qkv = true;
  // "attention_bias" is false in the published files, and the biases are there.
  spec.bias = {.qkv = true, .attention_output = true, .ffn = true, .head = false};
  spec.norm = Norm::kLayer;
  PHIDIAS_TRY(spec.norm_epsilon, epsilon_from_config(config, "layer_norm_epsilon"));

  PHIDIAS_TRY(const auto activation, config.optional_string("hidden_act"));
  if (activation && *activation != "gegelu") {
    return config.error(Code::kUnsupported,
                        "activation \"" + *activation + "\"; only \"gegelu\" is supported here",
                        "hidden_act");
  }
  spec.gating = Gating::kGegelu;
  PHIDIAS_TRY(spec.ffn_width, ffn_width(config, spec.width));
  PHIDIAS_TRY(const auto limit, config.optional_number("gegelu_limit"));
  if (limit) {
    if (!(*limit > 0)) return config.error(Code::kCorrupt, "must be positive", "gegelu_limit");
    spec.gating_limit = static_cast<float>(*limit);
  }

  PHIDIAS_TRY(spec.mask.blocks, blocks_from_config(config, spec.attention.heads));
  PHIDIAS_TRY(const auto scaled, config.optional_bool("mup_use_scaling"));
  if (scaled.value_or(true)) {
    PHIDIAS_TRY(const float multiplier, factor_or(config, "mup_attn_multiplier", 1));
    spec.attention.scale = multiplier / static_cast<float>(spec.attention.head_dim);
  }
  PHIDIAS_TRY(spec.embedding_scale, factor_or(config, "mup_embedding_multiplier", 1));
  PHIDIAS_TRY(spec.logit_divisor, factor_or(config, "mup_width_multiplier", 1));
  spec.masked_ids = masked_ids(spec.vocab);

  PHIDIAS_TRY(const auto theta, config.optional_number("rope_embedding_base"));
  spec.rope.theta = theta.value_or(1e6);
  if (!(spec.rope.theta > 0))
    return config.error(Code::kCorrupt, "must be greater than 0", "rope_embedding_base");
  PHIDIAS_TRY(spec.rope.position_scale, factor_or(config, "rope_position_scale", 1));
  spec.rope.rotary_dims = spec.attention.head_dim;
  const JsonReader rope = rope_dictionary(config);
  PHIDIAS_TRY(const bool lists, has_rope_lists(rope));
  if (lists) {
    PHIDIAS_TRY(spec.rope.long_rope, rope_lists(config, rope, spec));
  }
  spec.chat_template = "phi-3-small";
  return spec;
}

}  // namespace phidias
