// What attention needs of the key-value cache: how a page is laid out, and the pages of a sequence.
// Who owns the memory is the engine's business (engine/kv_cache.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/table.h"
#include "model/spec.h"

namespace phidias {

// A page holds `page_positions` consecutive positions of one sequence, for all layers:
//   [layer][kv head][key | value][position in page] vectors of vector_bytes
// so that attention over one head reads keys, then values, as two streams. A cache of some layers
// alone begins with first_layer.
struct KvLayout {
  KvType type = KvType::kF32;
  size_t first_layer = 0;
  size_t layers = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t page_positions = 0;
  size_t vector_bytes = 0;

  KvLayout(const ModelSpec& spec, KvType kv_type, size_t positions)
      : type(kv_type),
        layers(spec.layers),
        kv_heads(spec.attention.kv_heads),
        head_dim(spec.attention.head_dim),
        page_positions(positions),
        vector_bytes(kv_type_row(kv_type).vector_bytes(spec.attention.head_dim)) {}

  // 2 * layers * kv_heads * vector bytes.
  size_t bytes_per_position() const { return 2 * layers * kv_heads * vector_bytes; }
  size_t page_bytes() const { return bytes_per_position() * page_positions; }
  size_t key_offset(size_t layer, size_t head) const {
    return (((layer - first_layer) * kv_heads + head) * 2) * page_positions * vector_bytes;
  }
  size_t value_offset(size_t layer, size_t head) const {
    return key_offset(layer, head) + page_positions * vector_bytes;
  }
};

// The pages of one sequence, in order of position.
struct KvView {
  std::span<std::byte* const> pages;
};

}  // namespace phidias
