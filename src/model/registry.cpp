#include "model/registry.h"

#include <algorithm>

#include "base/try.h"
#include "formats/carried_files.h"
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
    {"phi3small",
     "Phi-3-small",
     phi3small_from_config,
     nullptr,
     {"Phi3SmallForCausalLM", true, false, nullptr}},
    {"phimoe",
     "Phi-3.5-MoE",
     phimoe_from_config,
     phimoe_from_gguf,
     {"PhiMoEForCausalLM", false, false, phimoe_config_keys}},
    {"phi3_v",
     "Phi-3-vision, Phi-3.5-vision",
     phi3_v_from_config,
     nullptr,
     {"Phi3VForCausalLM", true, false, nullptr}},
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

// By the configuration that the file carries.
Result<ModelSpec> spec_from_carried_config(const Variant& variant, const GgufFile& file) {
  const std::string key = carried_file_key("config.json");
  PHIDIAS_TRY(const auto text, file.optional_string(key));
  if (!text) {
    return Error{Code::kUnsupported,
                 "GGUF has no layout for models of type \"" + std::string(variant.name) +
                     "\", and the file does not carry the model's config.json; use the folder, or "
                     "a file that `phidias quantize` made of it",
                 {file.name, {}, key}};
  }
  PHIDIAS_TRY(const Json config, parse_json(*text, file.name));
  const JsonReader reader(config, file.name);
  PHIDIAS_TRY(const std::string type, reader.string("model_type"));
  if (type == variant.name) return variant.from_config(reader);
  return reader.error(
      Code::kCorrupt,
      "is \"" + type + "\", but the file's architecture is \"" + std::string(variant.name) + "\"",
      "model_type");
}

}  // namespace

std::span<const Variant> variants() { return kVariants; }

bool has_gguf_layout(std::string_view type) {
  return std::any_of(std::begin(kVariants), std::end(kVariants), [type](const Variant& variant) {
    return variant.name == type && variant.from_gguf != nullptr;
  });
}

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
    const bool known = variant.from_gguf != nullptr;
    PHIDIAS_TRY(ModelSpec spec,
                known ? variant.from_gguf(file) : spec_from_carried_config(variant, file));
    spec.type = *type;
    if (spec.tensor_names == nullptr) spec.tensor_names = known ? &kGgufNames : &kHuggingFaceNames;
    return spec;
  }
  return unknown(*type, {file.name, {}, "general.architecture"});
}

}  // namespace phidias
