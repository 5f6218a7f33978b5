// The attention entries of a table, over its vector type.
#pragma once

#include "kernels/generic/attention.h"
#include "kernels/generic/attention_exact.h"
#include "kernels/places.h"

namespace phidias::generic {

template <class V>
[[gnu::always_inline]] inline void fill_attention(KernelTable& table) {
  table.attention_exact = attention_exact<V>;
  table.attention_scores = attention_scores<V>;
  table.attention_mix = attention_mix<V>;
  table.attention[kKvAt<KvType::kF32>] = attention<V, typename V::F32Rows, 4, false>;
  table.attention[kKvAt<KvType::kF16>] = attention<V, typename V::F16Rows, 2, false>;
  table.attention[kKvAt<KvType::kBF16>] = attention<V, typename V::BF16Rows, 2, false>;
  table.attention[kKvAt<KvType::kQ8>] = attention<V, typename V::Int8Rows, 1, true>;
}

}  // namespace phidias::generic
