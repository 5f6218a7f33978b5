// The entry points of the variants, for the registry alone.
#pragma once

#include "base/json.h"
#include "formats/gguf.h"
#include "model/spec.h"
#include "phidias/status.h"

namespace phidias {

Result<ModelSpec> phi3_from_config(const JsonReader& config);
Result<ModelSpec> phi3_from_gguf(const GgufFile& file);
void phi3_config_keys(const ModelSpec& spec, Json& config);
Result<ModelSpec> phi3small_from_config(const JsonReader& config);
Result<ModelSpec> phimoe_from_config(const JsonReader& config);
Result<ModelSpec> phimoe_from_gguf(const GgufFile& file);
void phimoe_config_keys(const ModelSpec& spec, Json& config);
Result<ModelSpec> phi3_v_from_config(const JsonReader& config);
Result<ModelSpec> llama_from_config(const JsonReader& config);
Result<ModelSpec> llama_from_gguf(const GgufFile& file);

}  // namespace phidias
