// Phi-3 mini and medium, Phi-3.5-mini, phi-4, Phi-4-mini and their reasoning checkpoints: RMS norm,
// grouped queries, gated SiLU, plain rotation or LongRoPE over all or part of a head, an optional
// window. Source: transformers' models/phi3 (configuration and modeling); llama.cpp's metadata for
// GGUF.
#include <cmath>

#include "base/try.h"
#include "model/config.h"
#include "model/variants/variants.h"

namespace phidias {
namespace {

constexpr uint32_t kDefaultOriginalContext = 4096;  // transformers' class default

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

std::vector<float> floats(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

Result<LongRope> long_rope_from_config(const JsonReader& config, const JsonReader& rope,
                                       const ModelSpec& spec) {
  LongRope result;
  PHIDIAS_TRY(const auto short_factors, rope.optional_numbers("short_factor"));
  PHIDIAS_TRY(const auto long_factors, rope.optional_numbers("long_factor"));
  result.short_factors = floats(short_factors.value_or(std::vector<double>()));
  result.long_factors = floats(long_factors.value_or(std::vector<double>()));
  PHIDIAS_CHECK_OK(
      check_long_rope(result, spec.rope.rotary_dims, rope.error(Code::kCorrupt, {}).place));
  // Published files have the key at the top level, inside the dictionary, or (3-medium-128k) not
  // where transformers looks.
  PHIDIAS_TRY(const auto outer, config.optional_unsigned("original_max_position_embeddings"));
  PHIDIAS_TRY(const auto inner, rope.optional_unsigned("original_max_position_embeddings"));
  const uint64_t original = outer ? *outer : inner.value_or(kDefaultOriginalContext);
  if (original == 0 || original > spec.max_context) {
    return config.error(Code::kCorrupt,
                        "is " + std::to_string(original) +
                            ", expected 1 to max_position_embeddings (" +
                            std::to_string(spec.max_context) + ")",
                        "original_max_position_embeddings");
  }
  result.original_context = static_cast<uint32_t>(original);
  PHIDIAS_TRY(const auto stated, rope.optional_number("attention_factor"));
  PHIDIAS_TRY(const auto factor, rope.optional_number("factor"));
  const double scale =
      factor ? *factor : static_cast<double>(spec.max_context) / static_cast<double>(original);
  const double magnitude =
      stated ? *stated : long_rope_magnitude(scale, static_cast<double>(original));
  result.short_magnitude = result.long_magnitude = magnitude;
  return result;
}

}  // namespace

Result<ModelSpec> phi3_from_config(const JsonReader& config) {
  PHIDIAS_TRY(ModelSpec spec, dense_spec_from_config(config));
  PHIDIAS_TRY(const auto window, config.optional_unsigned("sliding_window"));
  // A window that covers every position is no window.
  if (window && *window > 0 && *window < spec.max_context)
    spec.mask.window = static_cast<uint32_t>(*window);

  const JsonReader rope = rope_dictionary(config);
  PHIDIAS_TRY(const auto outer_theta, config.optional_number("rope_theta"));
  PHIDIAS_TRY(const auto inner_theta, rope.optional_number("rope_theta"));
  spec.rope.theta = outer_theta ? *outer_theta : inner_theta.value_or(10000.0);
  PHIDIAS_TRY(const auto outer_part, config.optional_number("partial_rotary_factor"));
  PHIDIAS_TRY(const auto inner_part, rope.optional_number("partial_rotary_factor"));
  if (!(spec.rope.theta > 0))
    return config.error(Code::kCorrupt, "must be greater than 0", "rope_theta");
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
  if (kind == "longrope" || kind == "su" || kind == "yarn") {
    PHIDIAS_TRY(spec.rope.long_rope, long_rope_from_config(config, rope, spec));
    if (kind == "yarn")
      spec.notices.emplace_back("rope type \"yarn\" is read as \"longrope\", as transformers does");
  } else if (kind != "default") {
    return rope.error(Code::kUnsupported,
                      "rope type \"" + kind +
                          "\" is not known here; known are \"default\", \"longrope\" and \"su\"",
                      "type");
  }
  spec.chat_template = chat_template_of(spec);
  return spec;
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

  // The converter does not write the kind of rotation: the factor tensors mean LongRoPE.
  LongRope rope;
  bool any = false;
  for (const TensorEntry& tensor : file.tensors) {
    if (!tensor.name.starts_with("rope_factors_")) continue;
    if (tensor.shape.size() != 1 || format_row(tensor.format).block_values != 1) {
      return Error{Code::kCorrupt, "must be a vector of floats", {file.name, {}, tensor.name}};
    }
    std::vector<float> factors(tensor.shape[0]);
    format_row(tensor.format).decode(tensor.data, factors.data(), factors.size());
    (tensor.name == "rope_factors_long.weight" ? rope.long_factors : rope.short_factors) =
        std::move(factors);
    any = true;
  }
  if (any) {
    PHIDIAS_CHECK_OK(check_long_rope(rope, spec.rope.rotary_dims, {file.name, {}, "rope_factors"}));
    PHIDIAS_TRY(const auto original,
                file.optional_unsigned("phi3.rope.scaling.original_context_length"));
    rope.original_context = static_cast<uint32_t>(
        std::min<uint64_t>(original.value_or(kDefaultOriginalContext), spec.max_context));
    if (rope.original_context == 0) {
      return Error{Code::kCorrupt,
                   "must be greater than 0",
                   {file.name, {}, "phi3.rope.scaling.original_context_length"}};
    }
    PHIDIAS_TRY(const auto stated, file.optional_number("phi3.rope.scaling.attn_factor"));
    const double magnitude =
        stated ? *stated
               : long_rope_magnitude(static_cast<double>(spec.max_context) / rope.original_context,
                                     rope.original_context);
    rope.short_magnitude = rope.long_magnitude = magnitude;
    spec.rope.long_rope = std::move(rope);
  }
  spec.chat_template = chat_template_of(spec);
  return spec;
}

}  // namespace phidias
