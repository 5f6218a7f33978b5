// The files of a checkpoint, read as far as they are needed: shared by Model::load, inspect and
// load_chat_template.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "model/spec.h"
#include "model/weights.h"
#include "phidias/model.h"

namespace phidias {

struct ModelFiles {
  std::filesystem::path path;
  ModelSpec spec;
  std::string config_json;                // config.json, or the GGUF metadata as JSON
  std::vector<TokenId> generation_stops;  // of generation_config.json
  Checkpoint checkpoint;                  // empty for a folder without weights
  const TensorNames* names = nullptr;

  bool has_weights() const { return !checkpoint.tensors.tensors.empty(); }
};

// Configuration and headers. Errors: those of the readers and the registry; a folder without
// weights is none.
Result<ModelFiles> open_model_files(const std::filesystem::path& path);

// Everything but what comes from the weights and the tokenizer.
ModelInfo describe(const ModelFiles& files);
void describe_weights(const ModelSpec& spec, ModelWeights& weights, ModelInfo& info);

// Declared by any file, or the family's own, below the vocabulary's size; ascending.
std::vector<TokenId> stop_ids_of(const ModelFiles& files, const Tokenizer* tokenizer);

// Null where the checkpoint has none. Errors: kCorrupt for a tokenizer with more ids than the
// embedding has rows.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer_for(const ModelFiles& files);

struct FoundTemplate {
  std::shared_ptr<const ChatTemplate> chat_template;  // may be null
  std::string origin;                                 // "from the file", "built in: NAME", "none"
};
Result<FoundTemplate> find_chat_template(const ModelFiles& files, const Tokenizer* tokenizer);

}  // namespace phidias
