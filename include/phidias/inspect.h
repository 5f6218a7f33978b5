// Everything that a checkpoint's files say, checked without running the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "phidias/model.h"
#include "phidias/status.h"

namespace phidias {

struct Inspection {
  ModelInfo info;
  std::string
      config_json;  // config.json as it is, or the GGUF metadata as JSON (long arrays left out)
  std::string tokenizer;                // a line for people; "none" or why it could not be read
  std::string chat_template;            // "from the file", "built in: NAME", "none"
  std::vector<std::string> stop_texts;  // of info.stop_ids
  std::vector<std::pair<std::string, uint64_t>> kv_bytes_per_position;  // by cache type
  std::vector<std::string>
      problems;  // all tensors that are missing, unexpected or misshapen; empty: it can be run
};

// Reads headers alone, but for the norms' weights. A folder without weights is inspected by its
// configuration. Errors: kNotFound, kCorrupt or kUnsupported where nothing can be said at all
// (broken files, unknown model type).
Result<Inspection> inspect(const std::filesystem::path& path);

}  // namespace phidias
