// Phi-3.5-MoE: the Phi-3 block with layer norms, biases and sixteen feed-forward blocks, of which a
// router picks two for each row. Source: models-other.md of the reference, section 5; transformers'
// models/phimoe (4.x for the rotation); llama.cpp's metadata for GGUF.
#include <algorithm>
#include <cmath>

#include "base/try.h"
#include "model/config.h"
#include "model/variants/variants.h"

namespace phidias {
namespace {

constexpr double kDefaultJitter = 0.01;

Result<ExpertsSpec> experts_of(uint64_t count, uint64_t per_row, double jitter,
                               const Place& place) {
  if (per_row != ExpertsSpec::kPerRow) {
    return Error{Code::kUnsupported,
                 std::to_string(per_row) + " experts per token; its router picks 2", place};
  }
  if (count < ExpertsSpec::kPerRow) {
    return Error{Code::kCorrupt, std::to_string(count) + " experts; at least 2 are needed", place};
  }
  if (!(jitter >= 0 && jitter < 1))
    return Error{Code::kCorrupt, "the router's jitter must lie between 0 and 1", place};
  return ExpertsSpec{.count = static_cast<uint32_t>(count), .band = static_cast<float>(2 * jitter)};
}

Result<LongRope> rope_lists(const JsonReader& config, const JsonReader& rope,
                            const ModelSpec& spec) {
  PHIDIAS_TRY(LongRope lists, long_rope_from_config(config, rope, spec, kDefaultOriginalContext));
  const double original = lists.original_context;
  const double formula = long_rope_magnitude(spec.max_context / original, original);
  for (const auto& [key, magnitude] : {std::pair("short_mscale", &lists.short_magnitude),
                                       std::pair("long_mscale", &lists.long_magnitude)}) {
    PHIDIAS_TRY(const auto stated, rope.optional_number(key));
    if (stated && !(*stated > 0)) return rope.error(Code::kCorrupt, "must be greater than 0", key);
    *magnitude = stated.value_or(formula);
  }
  return lists;
}

// Converters write the magnitude that a formula gives, and not the published model's, which its
// config.json states.
void correct_magnitude(ModelSpec& spec) {
  constexpr double kPublished = 1.243163121016122;
  constexpr uint32_t kPublishedOriginal = 4096;
  constexpr uint32_t kPublishedContext = 131072;
  LongRope& lists = *spec.rope.long_rope;
  if (lists.original_context != kPublishedOriginal || spec.max_context != kPublishedContext) return;
  if (std::abs(lists.short_magnitude - kPublished) < 1e-6) {  // the key is a float
    lists.short_magnitude = lists.long_magnitude = kPublished;
    return;
  }
  const double formula =
      long_rope_magnitude(double{kPublishedContext} / kPublishedOriginal, kPublishedOriginal);
  if (std::abs(lists.short_magnitude - formula) > 1e-5) return;
  lists.short_magnitude = lists.long_magnitude = kPublished;
  spec.notices.emplace_back(
      "rope.scaling.attn_factor is 1.19024 by the converter's formula: 1.24316 is used, as the "
      "published configuration states it");
}

bool has_tensor(const GgufFile& file, std::string_view name) {
  return std::any_of(file.tensors.begin(), file.tensors.end(),
                     [name](const TensorEntry& tensor) { return tensor.name == name; });
}

}  // namespace

Result<ModelSpec> phimoe_from_config(const JsonReader& config) {
  PHIDIAS_TRY(ModelSpec spec, dense_spec_from_config(config));
  spec.norm = Norm::kLayer;
  PHIDIAS_TRY(const auto attention_bias, config.optional_bool("attention_bias"));
  PHIDIAS_TRY(const auto head_bias, config.optional_bool("lm_head_bias"));
  spec.bias.qkv = spec.bias.attention_output = attention_bias.value_or(false);
  spec.bias.head = head_bias.value_or(false);

  PHIDIAS_TRY(const uint32_t count, size_value(config, "num_local_experts"));
  PHIDIAS_TRY(const auto per_row, config.optional_unsigned("num_experts_per_tok"));
  PHIDIAS_TRY(const auto jitter, config.optional_number("router_jitter_noise"));
  PHIDIAS_TRY(
      spec.experts,
      experts_of(count, per_row.value_or(ExpertsSpec::kPerRow), jitter.value_or(kDefaultJitter),
                 config.error(Code::kCorrupt, {}, "num_local_experts").place));

  PHIDIAS_TRY(spec.mask.window, window_from_config(config, spec.max_context));
  const JsonReader rope = rope_dictionary(config);
  PHIDIAS_TRY(spec.rope.theta, theta_from_config(config, rope));
  spec.rope.rotary_dims = spec.attention.head_dim;
  PHIDIAS_TRY(const bool lists, has_rope_lists(rope));
  if (lists) {
    PHIDIAS_TRY(spec.rope.long_rope, rope_lists(config, rope, spec));
  }
  spec.chat_template = "phi-3.5-mini";
  return spec;
}

void phimoe_config_keys(const ModelSpec& spec, Json& config) {
  config["attention_bias"] = spec.bias.qkv;
  config["lm_head_bias"] = spec.bias.head;
  config["num_local_experts"] = spec.experts->count;
  config["num_experts_per_tok"] = ExpertsSpec::kPerRow;
  config["router_jitter_noise"] = json_numbers({spec.experts->band / 2})[0];
  config["sliding_window"] = spec.mask.window == 0 ? Json() : Json(spec.mask.window);
  config["rope_scaling"] = rope_scaling_json(spec);
  if (!spec.rope.long_rope) return;
  Json& scaling = config["rope_scaling"];
  scaling["short_mscale"] = spec.rope.long_rope->short_magnitude;
  scaling["long_mscale"] = spec.rope.long_rope->long_magnitude;
  config["original_max_position_embeddings"] = spec.rope.long_rope->original_context;
  scaling["original_max_position_embeddings"] = spec.rope.long_rope->original_context;
}

Result<ModelSpec> phimoe_from_gguf(const GgufFile& file) {
  PHIDIAS_TRY(ModelSpec spec, dense_spec_from_gguf(file, "phimoe"));
  spec.norm = Norm::kLayer;
  PHIDIAS_TRY(const uint32_t count, size_value(file, "phimoe.expert_count"));
  PHIDIAS_TRY(const auto per_row, file.optional_unsigned("phimoe.expert_used_count"));
  PHIDIAS_TRY(spec.experts, experts_of(count, per_row.value_or(ExpertsSpec::kPerRow),
                                       kDefaultJitter, {file.name, {}, "phimoe.expert_count"}));
  spec.bias.qkv = has_tensor(file, "blk.0.attn_qkv.bias") || has_tensor(file, "blk.0.attn_q.bias");
  spec.bias.attention_output = has_tensor(file, "blk.0.attn_output.bias");
  spec.bias.head = has_tensor(file, "output.bias");
  PHIDIAS_TRY(const auto window, file.optional_unsigned("phimoe.attention.sliding_window"));
  if (window && *window < spec.max_context) spec.mask.window = static_cast<uint32_t>(*window);
  PHIDIAS_TRY(spec.rope.long_rope, long_rope_from_gguf(file, "phimoe", spec));
  if (spec.rope.long_rope) correct_magnitude(spec);
  spec.chat_template = "phi-3.5-mini";
  return spec;
}

}  // namespace phidias
