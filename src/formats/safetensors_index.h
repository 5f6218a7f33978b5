// Reader of model.safetensors.index.json: which shard of a checkpoint holds which tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "phidias/status.h"

namespace phidias {

struct SafetensorsIndex {
  std::map<std::string, std::string>
      weight_map;                      // tensor -> name of its shard, a file of the same folder
  std::set<std::string> shards;        // every name in weight_map
  std::optional<uint64_t> total_size;  // bytes of all tensors as the writer counted them

  // Refused as kCorrupt, with the JSON path named: what is not JSON, has no weight_map, lists a
  // tensor twice, or names a shard that is not a plain file name ("../x", "/x", "a/b").
  static Result<SafetensorsIndex> open(const std::filesystem::path& path);
  // The same on text in memory; `name` is used in errors.
  static Result<SafetensorsIndex> parse(std::string_view text, const std::string& name);
};

}  // namespace phidias
