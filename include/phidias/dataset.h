// Values of many texts on disk: shards that can be mapped, written so that a run can be ended at
// any moment and taken up again.
//
// A folder holds index.json and shard-00000.safetensors, shard-00001.safetensors, ... of
// shard_tokens tokens each, the last one of what is left (docs/datasets.md):
//   <value path, such as layers.16.layer_output>  [tokens, ...]  f32, bf16, f16 or i8
//   <value path>.scale  [tokens]  f32                  with i8: the number is value * scale
//   token_ids, positions, sequence  [tokens]  i64      sequence: its number in the data
//   loss  [tokens]  f32                                where asked for; NaN at first positions
//   sequence_offsets  [n + 1]  i64                     where another text begins in the shard, then
//                                                      its tokens; not of shuffled ones
// index.json lists the shards that are complete, with tokens and SHA-256, and what they were made
// of. Shards and index appear whole or not at all: an interrupted shard is not listed and is made
// again, to the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "phidias/edits.h"
#include "phidias/engine.h"
#include "phidias/status.h"
#include "phidias/trace.h"

namespace phidias {

struct CollectOptions {
  std::vector<Read> reads;  // whole values with a row for each position, of any layers
  Edits edits;
  // "f32", "bf16", "f16"; "i8": each token's row is divided by its largest magnitude over 127.
  std::string dtype = "bf16";
  // Also keep the negative log-probability of each token given those before it. Costs the head at
  // every position.
  bool loss = false;
  uint64_t shard_tokens = 65536;  // capacity
  // Not 0: so many tokens at a time (rounded up to whole shards) are brought into a random order,
  // across texts. They are held in memory meanwhile.
  uint64_t shuffle_tokens = 0;
  uint64_t shuffle_seed = 0;
  bool resume = false;  // go on in a folder that is not complete
  std::function<bool(uint64_t done, uint64_t tokens)> progress;  // false cancels
};

struct Collection {
  uint64_t tokens = 0;
  uint64_t sequences = 0;
  size_t shards = 0;
  size_t reused = 0;  // shards that were there already
  uint64_t bytes = 0;
};

// Bytes that the values of one token take.
Result<uint64_t> collected_bytes_per_token(const Model& model, const CollectOptions& options);

// Texts share passes, and layers behind the last value are not run. Errors: kInvalidArgument (a
// read that has no rows by position, a selection, an unknown dtype; a folder that is not empty
// without `resume`, or whose index says something else), kCancelled, kIo, those of Trace.
Result<Collection> collect(Engine& engine, const std::vector<std::vector<TokenId>>& sequences,
                           const std::filesystem::path& folder, const CollectOptions& options);

}  // namespace phidias
