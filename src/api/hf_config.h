// The configuration files of a Hugging Face folder, written.
#pragma once

#include <span>
#include <string>

#include "model/spec.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// An existing config.json with the type of the weights as they are written now ("bf16", ...).
Result<std::string> config_with_type(const std::string& config_json, const std::string& type);

// What transformers needs to build the model. Errors: kUnsupported for a type whose keys are not
// known.
Result<std::string> config_from_spec(const ModelSpec& spec, const Tokenizer* tokenizer,
                                     const std::string& type);

std::string generation_config(const ModelSpec& spec, std::span<const TokenId> stop_ids);

}  // namespace phidias
