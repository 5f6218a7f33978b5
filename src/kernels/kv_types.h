// Types of the key-value cache, one row each, and how a page of one head lies in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace phidias {

enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8 };
inline constexpr size_t kKvTypeCount = 4;
constexpr size_t index_of(KvType type) { return static_cast<size_t>(type); }

// Positions that are stored together. The keys of a block lie dimension by dimension, its values
// position by position:
//   keys   [dim][kKvBlock] elements      a score is a chain over dimensions, one position a lane
//   values [kKvBlock][dim] elements      an output is a chain over positions, one dimension a lane
// each followed, in q8, by the scales [kKvBlock] f32 of the block's vectors. A page of one head has
// kv_blocks(positions) blocks of keys and as many of values.
inline constexpr size_t kKvBlock = 16;
constexpr size_t kv_blocks(size_t positions) { return (positions + kKvBlock - 1) / kKvBlock; }

// A vector is one head's key or value at one position: slot `slot` of a page. `page` points to the
// page's first block of keys, or of values.
using KvStoreFn = void (*)(const float* src, std::byte* page, size_t slot, size_t dim);
using KvLoadFn = void (*)(const std::byte* page, size_t slot, float* dst, size_t dim);

struct KvTypeRow {
  KvType type;
  std::string_view name;              // "f32", "f16", "bf16", "q8"
  size_t (*block_bytes)(size_t dim);  // of kKvBlock keys, or of as many values
  // Plain reference conversions. q8: int8 values and one scale a vector, the largest magnitude over
  // 127; the others round to nearest even.
  KvStoreFn store_key;
  KvStoreFn store_value;
  KvLoadFn load_key;
  KvLoadFn load_value;
};
const KvTypeRow& kv_type_row(KvType type);

}  // namespace phidias
