// The plain Llama block: the same as Phi-3's with separate projections, plain rotation and no
// window. What goes beyond that (other rotations, biases) is refused by name or as an unexpected
// tensor. Source: transformers' models/llama; llama.cpp's metadata and row order for GGUF.
#include "base/try.h"
#include "model/config.h"
#include "model/variants/variants.h"

namespace phidias {

Result<ModelSpec> llama_from_config(const JsonReader& config) {
  PHIDIAS_TRY(ModelSpec spec, dense_spec_from_config(config));
  const JsonReader rope = rope_dictionary(config);
  PHIDIAS_TRY(const std::string kind, rope_kind(rope));
  if (kind != "default") {
    return rope.error(
        Code::kUnsupported,
        "rope type \"" + kind + "\" is not supported for this model type; known is \"default\"",
        "type");
  }
  PHIDIAS_TRY(spec.rope.theta, theta_from_config(config, rope));
  spec.rope.rotary_dims = spec.attention.head_dim;
  return spec;
}

Result<ModelSpec> llama_from_gguf(const GgufFile& file) {
  PHIDIAS_TRY(ModelSpec spec, dense_spec_from_gguf(file, "llama"));
  PHIDIAS_TRY(const auto kind, file.optional_string("llama.rope.scaling.type"));
  if (kind && *kind != "none") {
    return Error{Code::kUnsupported,
                 "rope scaling \"" + *kind + "\" is not supported for this architecture",
                 {file.name, {}, "llama.rope.scaling.type"}};
  }
  PHIDIAS_TRY(const auto experts, file.optional_unsigned("llama.expert_count"));
  if (experts.value_or(0) > 0) {
    return Error{Code::kUnsupported,
                 "experts are not supported for this architecture",
                 {file.name, {}, "llama.expert_count"}};
  }
  if (spec.rope.rotary_dims != spec.attention.head_dim) {
    return Error{Code::kUnsupported,
                 "partly rotated heads are not supported for this architecture",
                 {file.name, {}, "llama.rope.dimension_count"}};
  }
  spec.interleaved_rotation = true;
  return spec;
}

}  // namespace phidias
