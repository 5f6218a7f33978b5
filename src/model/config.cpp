#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/try.h"

namespace phidias {
namespace {

std::vector<float> floats(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

Status check_heads(const AttentionSpec& attention, const Place& place) {
  if (attention.heads % attention.kv_heads != 0) {
    return Error{Code::kCorrupt,
                 std::to_string(attention.heads) + " query heads cannot share " +
                     std::to_string(attention.kv_heads) + " key-value heads evenly",
                 place};
  }
  if (attention.head_dim == 0 || attention.head_dim % 2 != 0 || attention.head_dim > 512) {
    return Error{Code::kUnsupported,
                 "heads of " + std::to_string(attention.head_dim) +
                     " values; even sizes up to 512 are supported",
                 place};
  }
  // Each is small enough alone; together they are the width of a matrix, which 32 bits must hold.
  if (uint64_t{attention.heads} * attention.head_dim > kMaxSize) {
    return Error{Code::kCorrupt,
                 std::to_string(attention.heads) + " heads of " +
                     std::to_string(attention.head_dim) + " values are more than any model has",
                 place};
  }
  return {};
}

}  // namespace

Result<uint32_t> size_value(const JsonReader& config, std::string_view key) {
  PHIDIAS_TRY(const uint64_t value, config.positive(key));
  if (value > kMaxSize) {
    return config.error(Code::kCorrupt, "is " + std::to_string(value) + ", more than any model has",
                        key);
  }
  return static_cast<uint32_t>(value);
}

Result<uint32_t> size_value(const GgufFile& file, const std::string& key) {
  PHIDIAS_TRY(const auto value, file.optional_unsigned(key));
  if (!value) return Error{Code::kCorrupt, "is missing", {file.name, {}, key}};
  if (*value == 0 || *value > kMaxSize) {
    return Error{Code::kCorrupt,
                 "is " + std::to_string(*value) + ", which no model has",
                 {file.name, {}, key}};
  }
  return static_cast<uint32_t>(*value);
}

Result<std::vector<int32_t>> token_ids(const JsonReader& config, std::string_view key) {
  std::vector<int32_t> ids;
  if (!config.has(key)) return ids;
  const Json& value = config.value().at(std::string(key));
  for (const Json& entry : value.is_array() ? value : Json::array({value})) {
    if (entry.is_number_integer() && entry == -1) continue;  // a way to write "none"
    if (!entry.is_number_unsigned() ||
        entry.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
      return config.error(Code::kCorrupt, "must be a token id or a list of token ids", key);
    }
    ids.push_back(entry.get<int32_t>());
  }
  return ids;
}

Result<ModelSpec> sizes_from_config(const JsonReader& config, bool tied_by_default) {
  if (config.has("quantization_config")) {
    return config.error(Code::kUnsupported,
                        "checkpoints quantized by other tools are not read; use the original "
                        "weights or a GGUF file",
                        "quantization_config");
  }
  ModelSpec spec;
  PHIDIAS_TRY(spec.vocab, size_value(config, "vocab_size"));
  PHIDIAS_TRY(spec.width, size_value(config, "hidden_size"));
  PHIDIAS_TRY(spec.layers, size_value(config, "num_hidden_layers"));
  PHIDIAS_TRY(spec.max_context, size_value(config, "max_position_embeddings"));
  PHIDIAS_TRY(spec.attention.heads, size_value(config, "num_attention_heads"));
  spec.attention.kv_heads = spec.attention.heads;
  if (config.has("num_key_value_heads")) {
    PHIDIAS_TRY(spec.attention.kv_heads, size_value(config, "num_key_value_heads"));
  }
  if (config.has("head_dim")) {
    PHIDIAS_TRY(spec.attention.head_dim, size_value(config, "head_dim"));
  } else {
    if (spec.width % spec.attention.heads != 0) {
      return config.error(Code::kCorrupt,
                          "is no multiple of num_attention_heads, and there is no head_dim",
                          "hidden_size");
    }
    spec.attention.head_dim = spec.width / spec.attention.heads;
  }
  PHIDIAS_CHECK_OK(
      check_heads(spec.attention, config.error(Code::kCorrupt, {}, "num_key_value_heads").place));
  PHIDIAS_TRY(const auto tied, config.optional_bool("tie_word_embeddings"));
  spec.tied_head = tied.value_or(tied_by_default);
  PHIDIAS_TRY(spec.end_ids, token_ids(config, "eos_token_id"));
  PHIDIAS_TRY(const auto bos, token_ids(config, "bos_token_id"));
  if (!bos.empty()) spec.bos_id = bos.front();
  return spec;
}

Result<ModelSpec> dense_spec_from_config(const JsonReader& config) {
  PHIDIAS_TRY(ModelSpec spec, sizes_from_config(config, false));
  PHIDIAS_TRY(spec.ffn_width, size_value(config, "intermediate_size"));
  PHIDIAS_TRY(spec.norm_epsilon, epsilon_from_config(config, "rms_norm_eps"));
  PHIDIAS_TRY(const auto activation, config.optional_string("hidden_act"));
  if (activation && *activation != "silu" && *activation != "swish") {
    return config.error(Code::kUnsupported,
                        "activation \"" + *activation + "\"; only \"silu\" is supported",
                        "hidden_act");
  }
  return spec;
}

Result<float> epsilon_from_config(const JsonReader& config, std::string_view key) {
  PHIDIAS_TRY(const double epsilon, config.number(key));
  if (!(epsilon > 0 && epsilon < 1))
    return config.error(Code::kCorrupt, "must lie between 0 and 1", key);
  return static_cast<float>(epsilon);
}

Result<uint32_t> window_from_config(const JsonReader& config, uint32_t max_context) {
  PHIDIAS_TRY(const auto window, config.optional_unsigned("sliding_window"));
  return window && *window < max_context ? static_cast<uint32_t>(*window) : 0U;
}

Result<ModelSpec> dense_spec_from_gguf(const GgufFile& file, const std::string& prefix) {
  ModelSpec spec;
  const TensorEntry* embedding = nullptr;
  bool has_head = false;
  for (const TensorEntry& tensor : file.tensors) {
    if (tensor.name == "token_embd.weight") embedding = &tensor;
    if (tensor.name == "output.weight") has_head = true;
  }
  PHIDIAS_TRY(spec.width, size_value(file, prefix + ".embedding_length"));
  if (embedding == nullptr || embedding->shape.size() != 2 || embedding->shape[0] > kMaxSize ||
      embedding->shape[0] == 0) {
    return Error{Code::kCorrupt,
                 "the embedding is missing or not a matrix",
                 {file.name, {}, "token_embd.weight"}};
  }
  spec.vocab = static_cast<uint32_t>(embedding->shape[0]);
  spec.tied_head = !has_head;
  PHIDIAS_TRY(spec.layers, size_value(file, prefix + ".block_count"));
  PHIDIAS_TRY(spec.ffn_width, size_value(file, prefix + ".feed_forward_length"));
  PHIDIAS_TRY(spec.max_context, size_value(file, prefix + ".context_length"));
  PHIDIAS_TRY(spec.attention.heads, size_value(file, prefix + ".attention.head_count"));
  spec.attention.kv_heads = spec.attention.heads;
  if (file.find(prefix + ".attention.head_count_kv") != nullptr) {
    PHIDIAS_TRY(spec.attention.kv_heads, size_value(file, prefix + ".attention.head_count_kv"));
  }
  if (file.find(prefix + ".attention.key_length") != nullptr) {
    PHIDIAS_TRY(spec.attention.head_dim, size_value(file, prefix + ".attention.key_length"));
  } else {
    spec.attention.head_dim = spec.width / spec.attention.heads;
  }
  PHIDIAS_CHECK_OK(
      check_heads(spec.attention, {file.name, {}, prefix + ".attention.head_count_kv"}));
  PHIDIAS_TRY(const auto epsilon,
              file.optional_number(prefix + ".attention.layer_norm_rms_epsilon"));
  if (!epsilon || !(*epsilon > 0 && *epsilon < 1)) {
    return Error{Code::kCorrupt,
                 "is missing or not between 0 and 1",
                 {file.name, {}, prefix + ".attention.layer_norm_rms_epsilon"}};
  }
  spec.norm_epsilon = static_cast<float>(*epsilon);
  PHIDIAS_TRY(const auto theta, file.optional_number(prefix + ".rope.freq_base"));
  spec.rope.theta = theta.value_or(10000);
  spec.rope.rotary_dims = spec.attention.head_dim;
  if (file.find(prefix + ".rope.dimension_count") != nullptr) {
    PHIDIAS_TRY(spec.rope.rotary_dims, size_value(file, prefix + ".rope.dimension_count"));
  }
  if (!(spec.rope.theta > 0) || spec.rope.rotary_dims > spec.attention.head_dim ||
      spec.rope.rotary_dims % 2 != 0) {
    return Error{Code::kCorrupt,
                 "rotates " + std::to_string(spec.rope.rotary_dims) + " of " +
                     std::to_string(spec.attention.head_dim) + " dimensions",
                 {file.name, {}, prefix + ".rope.dimension_count"}};
  }
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    PHIDIAS_TRY(const auto id, file.optional_unsigned(key));
    if (id && *id <= std::numeric_limits<int32_t>::max())
      spec.end_ids.push_back(static_cast<int32_t>(*id));
  }
  PHIDIAS_TRY(const auto bos, file.optional_unsigned("tokenizer.ggml.bos_token_id"));
  if (bos && *bos <= std::numeric_limits<int32_t>::max()) spec.bos_id = static_cast<int32_t>(*bos);
  return spec;
}

Json json_numbers(const std::vector<float>& values) {
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

Json rope_scaling_json(const ModelSpec& spec) {
  if (!spec.rope.long_rope) return nullptr;
  const LongRope& rope = *spec.rope.long_rope;
  return {{"type", "longrope"},
          {"short_factor", json_numbers(rope.short_factors)},
          {"long_factor", json_numbers(rope.long_factors)}};
}

JsonReader rope_dictionary(const JsonReader& config) {
  return config.has("rope_parameters") ? config.child("rope_parameters")
                                       : config.child("rope_scaling");
}

Result<double> theta_from_config(const JsonReader& config, const JsonReader& rope) {
  PHIDIAS_TRY(const auto outer, config.optional_number("rope_theta"));
  PHIDIAS_TRY(const auto inner, rope.optional_number("rope_theta"));
  const double theta = outer ? *outer : inner.value_or(10000.0);
  if (!(theta > 0)) return config.error(Code::kCorrupt, "must be greater than 0", "rope_theta");
  return theta;
}

Result<std::string> rope_kind(const JsonReader& rope) {
  PHIDIAS_TRY(const auto newer, rope.optional_string("rope_type"));
  PHIDIAS_TRY(const auto older, rope.optional_string("type"));
  if (newer && older && *newer != *older) {
    return rope.error(
        Code::kCorrupt,
        "is \"" + *older + "\" but rope_type is \"" + *newer + "\"; keep the right one", "type");
  }
  return newer ? *newer : older.value_or("default");
}

Result<bool> has_rope_lists(const JsonReader& rope) {
  PHIDIAS_TRY(const std::string kind, rope_kind(rope));
  if (kind == "longrope" || kind == "su") return true;
  if (kind == "default") return false;
  return rope.error(Code::kUnsupported,
                    "rope type \"" + kind +
                        "\" is not known here; known are \"default\", \"longrope\" and \"su\"",
                    "type");
}

Result<LongRope> long_rope_from_config(const JsonReader& config, const JsonReader& rope,
                                       const ModelSpec& spec, uint32_t default_original) {
  LongRope result;
  PHIDIAS_TRY(const auto short_factors, rope.optional_numbers("short_factor"));
  PHIDIAS_TRY(const auto long_factors, rope.optional_numbers("long_factor"));
  result.short_factors = floats(short_factors.value_or(std::vector<double>()));
  result.long_factors = floats(long_factors.value_or(std::vector<double>()));
  PHIDIAS_CHECK_OK(
      check_long_rope(result, spec.rope.rotary_dims, rope.error(Code::kCorrupt, {}).place));
  PHIDIAS_TRY(const auto outer, config.optional_unsigned("original_max_position_embeddings"));
  PHIDIAS_TRY(const auto inner, rope.optional_unsigned("original_max_position_embeddings"));
  const uint64_t original = outer ? *outer : inner.value_or(default_original);
  if (original == 0 || original > spec.max_context) {
    return config.error(Code::kCorrupt,
                        "is " + std::to_string(original) +
                            ", expected 1 to max_position_embeddings (" +
                            std::to_string(spec.max_context) + ")",
                        "original_max_position_embeddings");
  }
  result.original_context = static_cast<uint32_t>(original);
  return result;
}

Result<std::optional<LongRope>> long_rope_from_gguf(const GgufFile& file, const std::string& prefix,
                                                    const ModelSpec& spec) {
  // Converters do not write the kind of rotation: the factor tensors mean LongRoPE.
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
  if (!any) return std::optional<LongRope>();
  PHIDIAS_CHECK_OK(check_long_rope(rope, spec.rope.rotary_dims, {file.name, {}, "rope_factors"}));
  const std::string original_key = prefix + ".rope.scaling.original_context_length";
  PHIDIAS_TRY(const auto original, file.optional_unsigned(original_key));
  rope.original_context = static_cast<uint32_t>(
      std::min<uint64_t>(original.value_or(kDefaultOriginalContext), spec.max_context));
  if (rope.original_context == 0) {
    return Error{Code::kCorrupt, "must be greater than 0", {file.name, {}, original_key}};
  }
  PHIDIAS_TRY(const auto stated, file.optional_number(prefix + ".rope.scaling.attn_factor"));
  const double scale = static_cast<double>(spec.max_context) / rope.original_context;
  rope.short_magnitude = rope.long_magnitude =
      stated ? *stated : long_rope_magnitude(scale, rope.original_context);
  return std::optional<LongRope>(std::move(rope));
}

double long_rope_magnitude(double scale, double original_context) {
  return scale > 1 && original_context > 1
             ? std::sqrt(1 + std::log(scale) / std::log(original_context))
             : 1.0;
}

Status check_long_rope(const LongRope& rope, uint32_t rotary_dims, const Place& where) {
  const size_t expected = rotary_dims / 2;
  for (const auto* list : {&rope.short_factors, &rope.long_factors}) {
    const char* name = list == &rope.short_factors ? "short" : "long";
    if (list->size() != expected) {
      return Error{Code::kCorrupt,
                   std::string("the ") + name + " factor list has " + std::to_string(list->size()) +
                       " entries, expected " + std::to_string(expected) + " for " +
                       std::to_string(rotary_dims) + " rotated dimensions",
                   where};
    }
    for (const float factor : *list) {
      if (!(factor > 0) || !std::isfinite(factor)) {
        return Error{Code::kCorrupt,
                     std::string("the ") + name + " factor list has an entry that is not positive",
                     where};
      }
    }
  }
  return {};
}

}  // namespace phidias
