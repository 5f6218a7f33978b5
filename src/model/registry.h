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

// How the published code stores a model; what a converter writes.
struct StoredForm {
  std::string_view architecture;  // the class in config.json; empty: files of it are not written
  bool fused = false;             // qkv and gate_up are one tensor each
  bool gguf_interleaved = false;  // GGUF files have q and k in the order of interleaved rotation
  // Keys of config.json beyond those of every dense decoder; null where there are none.
  void (*config_keys)(const ModelSpec& spec, Json& config) = nullptr;
};

struct Variant {
  std::string_view name;         // model_type of config.json and general.architecture of GGUF
  std::string_view description;  // which checkpoints these are, for people
  Result<ModelSpec> (*from_config)(const JsonReader& config);
  // Null where no layout of GGUF is known: such a file is ours, the folder's own files describe the
  // model (formats/carried_files.h), and tensors have the folder's names.
  Result<ModelSpec> (*from_gguf)(const GgufFile& file);
  StoredForm stored = {};
};

std::span<const Variant> variants();
// How models of `type` are written. kUnsupported where they are not.
Result<StoredForm> stored_form(std::string_view type);
// Whether other programs have a layout of GGUF files for models of `type`.
bool has_gguf_layout(std::string_view type);

// The specification of a checkpoint. An unknown type is kUnsupported, with the list of those that
// are known.
Result<ModelSpec> spec_from_config(const JsonReader& config);
Result<ModelSpec> spec_from_gguf(const GgufFile& file);

}  // namespace phidias
