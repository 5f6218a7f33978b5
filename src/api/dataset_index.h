// index.json of a dataset: what it is made of, and the shards that are complete.
#pragma once

#include <filesystem>
#include <vector>

#include "base/json.h"
#include "formats/safetensors_writer.h"
#include "phidias/dataset.h"

namespace phidias {

class DatasetIndex {
 public:
  // Of a new folder, or with options.resume of one that was begun with the same. Errors:
  // kInvalidArgument, kIo.
  static Result<DatasetIndex> open(Engine& engine,
                                   const std::vector<std::vector<TokenId>>& sequences,
                                   const std::filesystem::path& folder,
                                   const CollectOptions& options);

  size_t shards() const { return json_["shards"].size(); }
  uint64_t bytes() const { return bytes_; }
  // Writes the next shard, then the index that lists it.
  Status add_shard(std::vector<SafetensorsData> tensors, uint64_t tokens);
  // No more shards will come.
  Status finish();

 private:
  Status save() const;

  std::filesystem::path folder_;
  Json json_;
  uint64_t bytes_ = 0;
};

}  // namespace phidias
