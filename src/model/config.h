// What the configurations of decoders have in common, read and checked once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/gguf.h"
#include "model/spec.h"
#include "phidias/status.h"

namespace phidias {

// Sizes, heads, head tying and end ids of a config.json; norm, feed-forward, mask and rotation are
// the variant's. Errors: kCorrupt with the JSON path; kUnsupported for quantized checkpoints.
Result<ModelSpec> sizes_from_config(const JsonReader& config, bool tied_by_default);

// The same with "rms_norm_eps", "intermediate_size" and gated SiLU. kUnsupported for other
// activations.
Result<ModelSpec> dense_spec_from_config(const JsonReader& config);

// Sizes beyond this are no model but a broken or hostile file; products of two of them cannot
// overflow 64 bits.
inline constexpr uint64_t kMaxSize = 1U << 24;

// A size that a model may have: 1 to kMaxSize.
Result<uint32_t> size_value(const JsonReader& config, std::string_view key);
Result<uint32_t> size_value(const GgufFile& file, const std::string& key);

// Between 0 and 1.
Result<float> epsilon_from_config(const JsonReader& config, std::string_view key);

// "sliding_window": 0 where it is absent, null or covers every position.
Result<uint32_t> window_from_config(const JsonReader& config, uint32_t max_context);

// The same from GGUF metadata under `<prefix>.`; the vocabulary is the number of rows of the
// embedding.
Result<ModelSpec> dense_spec_from_gguf(const GgufFile& file, const std::string& prefix);

// The ids under `key`, a number or a list of numbers; none where absent.
Result<std::vector<int32_t>> token_ids(const JsonReader& config, std::string_view key);

// The dictionary that describes the rotation: rope_parameters, else rope_scaling; empty where both
// are null.
JsonReader rope_dictionary(const JsonReader& config);

// "rope_theta", of the configuration or of that dictionary; 10000 by default.
Result<double> theta_from_config(const JsonReader& config, const JsonReader& rope);

// Floats that were read from text and rounded: the shortest numbers that give the same floats.
Json json_numbers(const std::vector<float>& values);
// The dictionary as it is written: null without factor lists.
Json rope_scaling_json(const ModelSpec& spec);

// Its kind by "rope_type" or "type" ("default" where neither is there). Both with different values:
// kCorrupt.
Result<std::string> rope_kind(const JsonReader& rope);

// transformers' class default of "original_max_position_embeddings".
inline constexpr uint32_t kDefaultOriginalContext = 4096;

// Both factor lists, checked against spec.rope.rotary_dims, and the original context: stated at the
// top, inside the dictionary, or `default_original`. The magnitudes are left at 1.
Result<LongRope> long_rope_from_config(const JsonReader& config, const JsonReader& rope,
                                       const ModelSpec& spec, uint32_t default_original);

// The same from the tensors rope_factors_*; nothing where there are none. The magnitudes are
// <prefix>.rope.scaling.attn_factor, or by the formula below.
Result<std::optional<LongRope>> long_rope_from_gguf(const GgufFile& file, const std::string& prefix,
                                                    const ModelSpec& spec);

// Whether the dictionary states factor lists ("longrope" or "su"), or nothing ("default"). Errors:
// kUnsupported for other kinds.
Result<bool> has_rope_lists(const JsonReader& rope);

// sqrt(1 + ln(s) / ln(original)) for s = scale > 1, else 1.
double long_rope_magnitude(double scale, double original_context);

// kCorrupt unless both lists have rotary_dims / 2 positive entries; `where` is put into the
// message.
Status check_long_rope(const LongRope& rope, uint32_t rotary_dims, const Place& where);

}  // namespace phidias
