// The variants that this build runs: one row each.
// To add one: a file in variants/ and a row in registry.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "formats/gguf.h"
#include "model/spec.h"
#include "phidias/status.h"

namespace phidias {

struct Variant {
  std::string_view name;         // model_type of config.json and general.architecture of GGUF
  std::string_view description;  // which checkpoints these are, for people
  Result<ModelSpec> (*from_config)(const JsonReader& config);
  Result<ModelSpec> (*from_gguf)(const GgufFile& file);
};

std::span<const Variant> variants();

// The specification of a checkpoint. An unknown type is kUnsupported, with the list of those that
// are known.
Result<ModelSpec> spec_from_config(const JsonReader& config);
Result<ModelSpec> spec_from_gguf(const GgufFile& file);

}  // namespace phidias
