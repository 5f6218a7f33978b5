#include "api/hf_config.h"

#include "base/json.h"
#include "base/try.h"
#include "model/config.h"
#include "model/registry.h"

namespace phidias {
namespace {

const char* torch_name(const std::string& type) {
  return type == "bf16" ? "bfloat16" : type == "f16" ? "float16" : "float32";
}

}  // namespace

Result<std::string> config_with_type(const std::string& config_json, const std::string& type) {
  PHIDIAS_TRY(Json config, parse_json(config_json, "config.json"));
  if (!config.is_object())
    return Error{Code::kCorrupt, "must be a JSON object", {"config.json", {}, {}}};
  // Newer files call it dtype.
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = torch_name(type);
  // The old name of the same rotation, which newer versions of transformers refuse. Models that
  // transformers does not hold come with code of their own, which knows the name that is there.
  const auto model_type = config.find("model_type");
  const bool held = model_type != config.end() && model_type->is_string() &&
                    has_gguf_layout(model_type->get<std::string>());
  if (const auto scaling = config.find("rope_scaling");
      held && scaling != config.end() && scaling->is_object()) {
    for (const char* key : {"type", "rope_type"}) {
      if (const auto name = scaling->find(key); name != scaling->end() && *name == "su")
        *name = "longrope";
    }
  }
  return dump_json(config, 2) + "\n";
}

Result<std::string> config_from_spec(const ModelSpec& spec, const Tokenizer* tokenizer,
                                     const std::string& type) {
  PHIDIAS_TRY(const StoredForm form, stored_form(spec.type));
  const AttentionSpec& attention = spec.attention;
  Json config = {{"architectures", {std::string(form.architecture)}},
                 {"model_type", spec.type},
                 {"vocab_size", spec.vocab},
                 {"hidden_size", spec.width},
                 {"intermediate_size", spec.ffn_width},
                 {"num_hidden_layers", spec.layers},
                 {"num_attention_heads", attention.heads},
                 {"num_key_value_heads", attention.kv_heads},
                 {"head_dim", attention.head_dim},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", spec.max_context},
                 {"rms_norm_eps", json_numbers({spec.norm_epsilon})[0]},
                 {"rope_theta", spec.rope.theta},
                 {"attention_bias", false},
                 {"attention_dropout", 0.0},
                 {"tie_word_embeddings", spec.tied_head},
                 {"initializer_range", 0.02},
                 {"use_cache", true},
                 {"torch_dtype", torch_name(type)}};
  if (form.config_keys != nullptr) form.config_keys(spec, config);
  if (spec.bos_id) config["bos_token_id"] = *spec.bos_id;
  if (!spec.end_ids.empty()) config["eos_token_id"] = spec.end_ids.front();
  if (tokenizer != nullptr && tokenizer->pad()) config["pad_token_id"] = *tokenizer->pad();
  return dump_json(config, 2) + "\n";
}

std::string generation_config(const ModelSpec& spec, std::span<const TokenId> stop_ids) {
  Json config = {{"_from_model_config", true}};
  if (spec.bos_id) config["bos_token_id"] = *spec.bos_id;
  if (!stop_ids.empty())
    config["eos_token_id"] = std::vector<TokenId>(stop_ids.begin(), stop_ids.end());
  return dump_json(config, 2) + "\n";
}

}  // namespace phidias
