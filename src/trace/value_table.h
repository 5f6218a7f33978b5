// Where each named value is found in a pass: one row for each, beside its public description.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/spec.h"
#include "model/taps.h"
#include "phidias/values.h"

namespace phidias {

// A value's part of its site's row: `groups` vectors (heads, mostly) of `inner` numbers.
struct Segment {
  size_t offset = 0;
  size_t groups = 1;
  size_t group_stride = 0;
  size_t inner = 0;
  size_t inner_stride = 1;
};

// How a value is made of what its site passes.
enum class Extract : uint8_t {
  kRows,            // the segment as it is
  kPattern,         // visit_pattern()
  kNormScale,       // of the stream's row
  kContributions,   // of the heads' row, through the output projection
  kNextTokenProbs,  // of the logits' row
  kPass,            // of what the pass is told: tokens, rotation and blocks
  kImage,           // the segment of an image's rows
};

struct ValueSource {
  Site site = Site::kTokenEmbeddings;
  Extract extract = Extract::kRows;
  Segment (*segment)(const ModelSpec&) = nullptr;
};
const ValueSource& source_of(ValueId id);

inline bool on_model(ValueId id) { return !has_layers(info_of(id).module); }
inline bool of_images(ValueId id) { return of_images(info_of(id).module); }
inline bool is_integer(ValueId id) {
  return id == ValueId::kInputIds || id == ValueId::kAttentionMask || id == ValueId::kInputSize ||
         id == ValueId::kRotaryFactorSet || id == ValueId::kRouterExperts ||
         id == ValueId::kVisibleBlocks;
}

// Why a model has no such value; nothing where it has.
std::optional<std::string> missing_value(ValueId id, const ModelSpec& spec);

// Blocks of keys that `rows` positions make.
uint64_t key_blocks(const ModelSpec& spec, uint64_t rows);

// Sizes of all axes of a whole value. `rows` positions; tiles or tokens of an image.
std::vector<uint64_t> shape_of(ValueId id, const ModelSpec& spec, uint64_t rows);

}  // namespace phidias
