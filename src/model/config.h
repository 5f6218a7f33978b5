// What the configurations of all dense decoders have in common, read and checked once.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "formats/gguf.h"
#include "model/spec.h"
#include "phidias/status.h"

namespace phidias {

// Sizes, norm, heads, head tying and end ids of a config.json; the mask and the rotation are the
// variant's. Errors: kCorrupt with the JSON path; kUnsupported for quantized checkpoints and
// activations other than SiLU.
Result<ModelSpec> dense_spec_from_config(const JsonReader& config);

// The same from GGUF metadata under `<prefix>.`; the vocabulary is the number of rows of the
// embedding.
Result<ModelSpec> dense_spec_from_gguf(const GgufFile& file, const std::string& prefix);

// The ids under `key`, a number or a list of numbers; none where absent.
Result<std::vector<int32_t>> token_ids(const JsonReader& config, std::string_view key);

// The dictionary that describes the rotation: rope_parameters, else rope_scaling; empty where both
// are null.
JsonReader rope_dictionary(const JsonReader& config);

// Its kind by "rope_type" or "type" ("default" where neither is there). Both with different values:
// kCorrupt.
Result<std::string> rope_kind(const JsonReader& rope);

// sqrt(1 + ln(s) / ln(original)) for s = scale > 1, else 1.
double long_rope_magnitude(double scale, double original_context);

// kCorrupt unless both lists have rotary_dims / 2 positive entries; `where` is put into the
// message.
Status check_long_rope(const LongRope& rope, uint32_t rotary_dims, const Place& where);

}  // namespace phidias
