#include "api/hf_config.h"

#include <algorithm>

#include "base/json.h"
#include "base/try.h"

namespace phidias {
namespace {

const char* torch_name(const std::string& type) {
  return type == "bf16" ? "bfloat16" : type == "f16" ? "float16" : "float32";
}

// Floats were read from text and rounded: the shortest text that gives the same float.
Json numbers(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) {
    char text[32];
    double shortest = value;
    for (int digits = 6; digits <= 9; ++digits) {
      std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(value));
      shortest = std::strtod(text, nullptr);
      if (static_cast<float>(shortest) == value) break;
    }
    list.push_back(shortest);
  }
  return list;
}

Json scaling_json(const ModelSpec& spec) {
  if (!spec.rope.long_rope) return nullptr;
  const LongRope& rope = *spec.rope.long_rope;
  return {{"type", "longrope"},
          {"short_factor", numbers(rope.short_factors)},
          {"long_factor", numbers(rope.long_factors)}};
}

// What a model with experts has beyond the plain block.
void add_experts(Json& config, const ModelSpec& spec) {
  config["attention_bias"] = spec.bias.qkv;
  config["lm_head_bias"] = spec.bias.head;
  config["num_local_experts"] = spec.experts->count;
  config["num_experts_per_tok"] = ExpertsSpec::kPerRow;
  config["router_jitter_noise"] = numbers({spec.experts->band / 2})[0];
  config["sliding_window"] = spec.mask.window == 0 ? Json() : Json(spec.mask.window);
  config["rope_scaling"] = scaling_json(spec);
  if (!spec.rope.long_rope) return;
  Json& scaling = config["rope_scaling"];
  scaling["short_mscale"] = spec.rope.long_rope->short_magnitude;
  scaling["long_mscale"] = spec.rope.long_rope->long_magnitude;
  config["original_max_position_embeddings"] = spec.rope.long_rope->original_context;
  scaling["original_max_position_embeddings"] = spec.rope.long_rope->original_context;
}

struct WrittenType {
  std::string_view type;
  const char* architecture;
};
constexpr WrittenType kWrittenTypes[] = {
    {"phi3", "Phi3ForCausalLM"}, {"phimoe", "PhiMoEForCausalLM"}, {"llama", "LlamaForCausalLM"}};

}  // namespace

Result<std::string> config_with_type(const std::string& config_json, const std::string& type) {
  PHIDIAS_TRY(Json config, parse_json(config_json, "config.json"));
  if (!config.is_object())
    return Error{Code::kCorrupt, "must be a JSON object", {"config.json", {}, {}}};
  // Newer files call it dtype.
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = torch_name(type);
  return dump_json(config, 2) + "\n";
}

Result<std::string> config_from_spec(const ModelSpec& spec, const Tokenizer* tokenizer,
                                     const std::string& type) {
  const auto* written = std::find_if(std::begin(kWrittenTypes), std::end(kWrittenTypes),
                                     [&](const WrittenType& t) { return t.type == spec.type; });
  if (written == std::end(kWrittenTypes)) {
    return Error{Code::kUnsupported,
                 "the configuration of models of type \"" + spec.type + "\" cannot be written",
                 {}};
  }
  const AttentionSpec& attention = spec.attention;
  Json config = {{"architectures", {written->architecture}},
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
                 {"rms_norm_eps", numbers({spec.norm_epsilon})[0]},
                 {"rope_theta", spec.rope.theta},
                 {"attention_bias", false},
                 {"attention_dropout", 0.0},
                 {"tie_word_embeddings", spec.tied_head},
                 {"initializer_range", 0.02},
                 {"use_cache", true},
                 {"torch_dtype", torch_name(type)}};
  if (spec.experts) add_experts(config, spec);
  if (spec.type == "phi3") {
    config["original_max_position_embeddings"] =
        spec.rope.long_rope ? spec.rope.long_rope->original_context : spec.max_context;
    config["rope_scaling"] = scaling_json(spec);
    config["sliding_window"] = spec.mask.window == 0 ? Json() : Json(spec.mask.window);
    if (spec.rope.rotary_dims != attention.head_dim) {
      config["partial_rotary_factor"] =
          static_cast<double>(spec.rope.rotary_dims) / attention.head_dim;
    }
    config["embd_pdrop"] = 0.0;
    config["resid_pdrop"] = 0.0;
  }
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
