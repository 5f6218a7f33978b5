#include "api/shapes.h"

#include "base/json.h"
#include "base/try.h"
#include "model/registry.h"
#include "phidias/bench.h"

namespace phidias {
namespace {

struct Shape {
  std::string_view name;
  std::string_view config;
  size_t factors = 0;  // entries of each of LongRoPE's lists
};

// models.md of the reference, section 1.
constexpr Shape kShapes[] = {
    {"phi-3-mini", R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32064,
        "max_position_embeddings": 4096, "sliding_window": 2047, "rms_norm_eps": 1e-5})"},
    {"phi-3-mini-128k", R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32064,
        "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope"}, "rms_norm_eps": 1e-5})",
     48},
    {"phi-3.5-mini", R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32064,
        "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope"}, "rms_norm_eps": 1e-5})",
     48},
    {"phi-3-medium", R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
        "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 10,
        "vocab_size": 32064, "max_position_embeddings": 4096, "sliding_window": 2047,
        "rms_norm_eps": 1e-5})"},
    {"phi-3-medium-128k", R"({"model_type": "phi3", "hidden_size": 5120,
        "intermediate_size": 17920, "num_hidden_layers": 40, "num_attention_heads": 40,
        "num_key_value_heads": 10, "vocab_size": 32064, "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096, "rope_scaling": {"type": "su"},
        "rms_norm_eps": 1e-5})",
     64},
    {"phi-3-small", R"({"model_type": "phi3small", "hidden_size": 4096,
        "ff_intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 100352, "max_position_embeddings": 8192,
        "rope_embedding_base": 1000000, "rope_position_scale": 1.0, "hidden_act": "gegelu",
        "gegelu_limit": 20.0, "layer_norm_epsilon": 1e-5, "blocksparse_block_size": 64,
        "blocksparse_num_local_blocks": 16, "blocksparse_vert_stride": 8,
        "blocksparse_homo_head_pattern": false, "dense_attention_every_n_layers": 2,
        "mup_use_scaling": true, "mup_attn_multiplier": 1.0, "mup_embedding_multiplier": 10.0,
        "mup_width_multiplier": 8.0})"},
    {"phi-3-vision", R"({"model_type": "phi3_v", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32064,
        "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "su"}, "rms_norm_eps": 1e-5})",
     48},
    {"phi-3.5-moe", R"({"model_type": "phimoe", "hidden_size": 4096, "intermediate_size": 6400,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_local_experts": 16, "num_experts_per_tok": 2, "vocab_size": 32064,
        "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
        "attention_bias": true, "lm_head_bias": true, "router_jitter_noise": 0.01,
        "rope_theta": 10000, "rms_norm_eps": 1e-5, "rope_scaling": {"type": "longrope",
        "short_mscale": 1.243163121016122, "long_mscale": 1.243163121016122,
        "original_max_position_embeddings": 4096}})",
     64},
    {"phi-4", R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
        "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 10,
        "vocab_size": 100352, "max_position_embeddings": 16384, "rope_theta": 250000,
        "rms_norm_eps": 1e-5})"},
    {"phi-4-reasoning", R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
        "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 10,
        "vocab_size": 100352, "max_position_embeddings": 32768, "rope_theta": 500000,
        "rms_norm_eps": 1e-5})"},
    {"phi-4-mini", R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 8,
        "vocab_size": 200064, "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75,
        "rope_scaling": {"type": "longrope"}, "tie_word_embeddings": true,
        "rms_norm_eps": 1e-5})",
     48},
};

}  // namespace

std::vector<std::string_view> model_shapes() {
  std::vector<std::string_view> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  return names;
}

Result<ModelSpec> spec_of_shape(std::string_view name) {
  std::string known;
  for (const Shape& shape : kShapes) {
    if (shape.name != name) {
      known += (known.empty() ? "" : ", ") + std::string(shape.name);
      continue;
    }
    const std::string place(shape.name);
    PHIDIAS_TRY(Json config, parse_json(shape.config, place));
    if (shape.factors > 0) {
      const std::vector<double> ones(shape.factors, 1.0);
      config["rope_scaling"]["short_factor"] = ones;
      config["rope_scaling"]["long_factor"] = ones;
    }
    return spec_from_config(JsonReader(config, place));
  }
  return Error{Code::kInvalidArgument,
               "\"" + std::string(name) + "\" is not a shape that is known; choose one of " + known,
               {{}, {}, "shape"}};
}

}  // namespace phidias
