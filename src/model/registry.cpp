#include "model/registry.h"

#include "base/try.h"
#include "model/variants/variants.h"
#include "model/weights.h"

namespace phidias {
namespace {

constexpr Variant kVariants[] = {
    {"phi3",
     "Phi-3 mini and medium, Phi-3.5-mini, phi-4, Phi-4-mini, Phi-4 reasoning",
     phi3_from_config,
     phi3_from_gguf,
     {"Phi3ForCausalLM", true, false, phi3_config_keys}},
    {"phi3small", "Phi-3-small", phi3small_from_config, phi3small_from_gguf},
    {"phimoe",
     "Phi-3.5-MoE",
     phimoe_from_config,
     phimoe_from_gguf,
     {"PhiMoEForCausalLM", false, false, phimoe_config_keys}},
    {"phi3_v", "Phi-3-vision, Phi-3.5-vision", phi3_v_from_config, phi3_v_from_gguf},
    {"llama",
     "the plain Llama block",
     llama_from_config,
     llama_from_gguf,
     {"LlamaForCausalLM", false, true, nullptr}},
};

Error unknown(const std::string& type, Place place) {
  std::string message = "model type \"" + type + "\" is not supported; supported are";
  for (const Variant& variant : kVariants) {
    message += (&variant == kVariants ? " " : ", ") + std::string(variant.name) + " (" +
               std::string(variant.description) + ")";
  }
  return {Code::kUnsupported, std::move(message), std::move(place)};
}

}  // namespace

std::span<const Variant> variants() { return kVariants; }

Result<StoredForm> stored_form(std::string_view type) {
  for (const Variant& variant : kVariants) {
    if (variant.name == type && !variant.stored.architecture.empty()) return variant.stored;
  }
  return Error{Code::kUnsupported,
               "models of type \"" + std::string(type) + "\" cannot be written in this form",
               {}};
}

Result<ModelSpec> spec_from_config(const JsonReader& config) {
  PHIDIAS_TRY(const std::string type, config.string("model_type"));
  for (const Variant& variant : kVariants) {
    if (variant.name != type) continue;
    PHIDIAS_TRY(ModelSpec spec, variant.from_config(config));
    spec.type = type;
    if (spec.tensor_names == nullptr) spec.tensor_names = &kHuggingFaceNames;
    return spec;
  }
  return unknown(type, config.error(Code::kUnsupported, {}, "model_type").place);
}

Result<ModelSpec> spec_from_gguf(const GgufFile& file) {
  PHIDIAS_TRY(const auto type, file.optional_string("general.architecture"));
  if (!type) return Error{Code::kCorrupt, "is missing", {file.name, {}, "general.architecture"}};
  for (const Variant& variant : kVariants) {
    if (variant.name != *type) continue;
    PHIDIAS_TRY(ModelSpec spec, variant.from_gguf(file));
    spec.type = *type;
    if (spec.tensor_names == nullptr) spec.tensor_names = &kGgufNames;
    return spec;
  }
  return unknown(*type, {file.name, {}, "general.architecture"});
}

}  // namespace phidias
