// Phi-3 mini and medium, Phi-3.5-mini, phi-4, Phi-4-mini and their reasoning checkpoints: RMS norm,
// grouped queries, gated SiLU, plain rotation or LongRoPE over all or part of a head, an optional
// window. Source: transformers' models/phi3 (configuration and modeling); llama.cpp's metadata for
// GGUF.
#include "base/try.h"
#include "model/config.h"
#include "model/variants/variants.h"

namespace phidias {
namespace {

// Published files all carry a template; conversions may have lost it. Phi-4-reasoning's long system
// text is not built in.
std::string chat_template_of(const ModelSpec& spec) {
  switch (spec.vocab) {
    case 32064:
      return spec.layers == 40     ? "phi-3-medium"
             : spec.rope.long_rope ? "phi-3.5-mini"
                                   : "phi-3-mini";
    case 100352:
      return spec.max_context > 16384 ? "" : "phi-4";
    case 200064:
      return "phi-4-mini";
    default:
      return "";
  }
}

}  // namespace

Result<ModelSpec> phi3_from_config(const JsonReader& config) {
  PHIDIAS_TRY(ModelSpec spec, dense_spec_from_config(config));
  PHIDIAS_TRY(spec.mask.window, window_from_config(config, spec.max_context));
  const JsonReader rope = rope_dictionary(config);
  PHIDIAS_TRY(spec.rope.theta, theta_from_config(config, rope));
  PHIDIAS_TRY(const auto outer_part, config.optional_number("partial_rotary_factor"));
  PHIDIAS_TRY(const auto inner_part, rope.optional_number("partial_rotary_factor"));
  const double part = outer_part ? *outer_part : inner_part.value_or(1.0);
  if (!(part > 0 && part <= 1)) {
    return config.error(Code::kCorrupt, "must be greater than 0 and at most 1",
                        "partial_rotary_factor");
  }
  spec.rope.rotary_dims = static_cast<uint32_t>(spec.attention.head_dim * part);
  if (spec.rope.rotary_dims % 2 != 0 || spec.rope.rotary_dims == 0) {
    return config.error(
        Code::kCorrupt,
        "rotates " + std::to_string(spec.rope.rotary_dims) + " dimensions of a head",
        "partial_rotary_factor");
  }

  PHIDIAS_TRY(const std::string kind, rope_kind(rope));
  const bool yarn = kind == "yarn";
  PHIDIAS_TRY(const bool has_lists, yarn ? Result<bool>(true) : has_rope_lists(rope));
  if (has_lists) {
    // Published files have the original context at the top level, inside the dictionary, or
    // (3-medium-128k) not where transformers looks.
    PHIDIAS_TRY(LongRope lists, long_rope_from_config(config, rope, spec, kDefaultOriginalContext));
    PHIDIAS_TRY(const auto stated, rope.optional_number("attention_factor"));
    PHIDIAS_TRY(const auto factor, rope.optional_number("factor"));
    const double original = lists.original_context;
    lists.short_magnitude = lists.long_magnitude =
        stated ? *stated
               : long_rope_magnitude(factor.value_or(spec.max_context / original), original);
    spec.rope.long_rope = std::move(lists);
    if (yarn)
      spec.notices.emplace_back("rope type \"yarn\" is read as \"longrope\", as transformers does");
  }
  spec.chat_template = chat_template_of(spec);
  return spec;
}

void phi3_config_keys(const ModelSpec& spec, Json& config) {
  config["original_max_position_embeddings"] =
      spec.rope.long_rope ? spec.rope.long_rope->original_context : spec.max_context;
  config["rope_scaling"] = rope_scaling_json(spec);
  config["sliding_window"] = spec.mask.window == 0 ? Json() : Json(spec.mask.window);
  if (spec.rope.rotary_dims != spec.attention.head_dim) {
    config["partial_rotary_factor"] =
        static_cast<double>(spec.rope.rotary_dims) / spec.attention.head_dim;
  }
  config["embd_pdrop"] = 0.0;
  config["resid_pdrop"] = 0.0;
}

Result<ModelSpec> phi3_from_gguf(const GgufFile& file) {
  PHIDIAS_TRY(ModelSpec spec, dense_spec_from_gguf(file, "phi3"));
  PHIDIAS_TRY(const auto window, file.optional_unsigned("phi3.attention.sliding_window"));
  if (window) {
    if (*window > 0 && *window < spec.max_context)
      spec.mask.window = static_cast<uint32_t>(*window);
  } else if ((spec.layers == 32 || spec.layers == 40) && spec.max_context == 4096) {
    // Files from before July 2024 lack the key; these two are Phi-3-mini-4k and Phi-3-medium-4k.
    spec.mask.window = 2047;
    spec.notices.emplace_back(
        "the file does not state its attention window: 2047 is used, as for Phi-3 4k models");
  }

  PHIDIAS_TRY(spec.rope.long_rope, long_rope_from_gguf(file, "phi3", spec));
  spec.chat_template = chat_template_of(spec);
  return spec;
}

}  // namespace phidias
