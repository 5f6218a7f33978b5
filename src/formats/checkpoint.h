// Opens a checkpoint, whatever files it is made of: a folder with model.safetensors, a folder with
// shards and their index, or one GGUF file. Only headers are read; the weights stay in mapped
// memory until they are used.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "formats/gguf.h"
#include "formats/tensor_file.h"

namespace phidias {

struct TensorSet {
  std::vector<std::string> files;  // paths; TensorEntry::file counts in them
  std::vector<std::shared_ptr<const MappedFile>>
      mappings;                      // of `files`; entries live as long as these
  std::vector<TensorEntry> tensors;  // no name twice
  std::vector<std::string> ignored;  // what is in no number format of ours: "name (dtype)"
};

// Immutable, safe to share.
struct Checkpoint {
  std::filesystem::path path;
  TensorSet tensors;
  std::shared_ptr<const GgufFile> gguf;  // metadata of a GGUF file; null for a folder

  // Errors: those of the readers, naming the shard; kNotFound for a path or a folder without
  // weights, and for a shard that the index names and the folder lacks; kCorrupt for a shard that
  // the index does not name, and for a tensor that index and shards do not agree on; kUnsupported
  // for one part of a split GGUF.
  static Result<Checkpoint> open(const std::filesystem::path& path);
};

}  // namespace phidias
