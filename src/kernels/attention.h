// What an attention kernel is asked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv_types.h"

namespace phidias {

// Attention of `rows` query rows of one sequence for the `group` query heads that share one
// key-value head.
//   pages    page p holds positions [p * page_positions, (p + 1) * page_positions) in blocks
//            (kv_types.h); only blocks that hold a key which some query sees are read
//   mask     query row r sees keys [first_key[r], end_key[r]), and of those, where `visible` is
//            given, only the ones that lie in a visible part: part p is positions
//            [p * visible_positions, (p + 1) * visible_positions)
//   order    pages ascending, keys ascending: a fixed order of merging for a query (order.h),
//            whatever rows and heads are computed beside it
//   out      row r, head g at out[r * out_stride + g * head_dim]; a row that sees nothing gives
//   zeros
struct AttentionArgs {
  const std::byte* const* key_pages = nullptr;
  const std::byte* const* value_pages = nullptr;
  size_t page_positions = 0;  // at most kMaxPagePositions
  size_t head_dim = 0;        // at most kMaxHeadDim
  size_t group = 0;
  const float* queries = nullptr;  // row r, head g at queries[r * query_stride + g * head_dim]
  size_t query_stride = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  size_t rows = 0;
  const uint32_t* first_key = nullptr;
  const uint32_t* end_key = nullptr;
  float scale = 1;           // of the scores; head_dim^-0.5 as a rule
  float* scratch = nullptr;  // of the calling thread: attention_scratch_floats(...), aligned to 64
  // Null: all parts are visible. Else [rows][group]: part p of row r, head g is visible if bit
  // p % 64 of visible[r * group + g][p / 64] is set. Rows and heads may share a list.
  const uint64_t* const* visible = nullptr;
  size_t visible_positions = 0;
};
using AttentionFn = void (*)(const AttentionArgs&);

inline constexpr size_t kMaxPagePositions = 256;
inline constexpr size_t kMaxHeadDim = 512;
// Queries (rows times heads) that go through the keys together.
inline constexpr size_t kAttentionPass = 120;
// Exact: the weights of one query over all its keys in double. Online: a page's keys and values as
// floats, and of each query its copy, what it has mixed, and its weights.
constexpr size_t attention_scratch_floats(size_t keys, size_t head_dim) {
  const size_t exact = 2 * keys + 64;
  const size_t online = 2 * kMaxPagePositions * head_dim + kAttentionPass * (2 * head_dim + 2) +
                        8 * (kMaxPagePositions + 64);
  return exact > online ? exact : online;
}

}  // namespace phidias
