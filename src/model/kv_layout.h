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
//   [layer][kv head][keys | values] in blocks of kKvBlock positions (kernels/kv_types.h)
// so that attention over one head reads keys, then values, as one stream. A cache of some layers
// alone begins with first_layer.
struct KvLayout {
  KvType type = KvType::kF32;
  size_t first_layer = 0;
  size_t layers = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t page_positions = 0;
  size_t head_bytes = 0;  // the keys of one head in a page, or its values

  KvLayout(const ModelSpec& spec, KvType kv_type, size_t positions)
      : type(kv_type),
        layers(spec.layers),
        kv_heads(spec.attention.kv_heads),
        head_dim(spec.attention.head_dim),
        page_positions(positions),
        head_bytes(kv_blocks(positions) * kv_type_row(kv_type).block_bytes(head_dim)) {}

  size_t page_bytes() const { return 2 * layers * kv_heads * head_bytes; }
  // Rounded up; pages that are no multiple of kKvBlock positions leave a part of a block empty.
  size_t bytes_per_position() const { return (page_bytes() + page_positions - 1) / page_positions; }
  // Where the keys, or the values, of one head begin in a page.
  size_t key_offset(size_t layer, size_t head) const {
    return ((layer - first_layer) * kv_heads + head) * 2 * head_bytes;
  }
  size_t value_offset(size_t layer, size_t head) const {
    return key_offset(layer, head) + head_bytes;
  }
};

// The pages of one sequence, in order of position.
struct KvView {
  std::span<std::byte* const> pages;
};

}  // namespace phidias
