#include <cmath>
#include <cstring>

#include "kernels/scalar/math.h"
#include "kernels/scalar/scalar.h"
#include "kernels/visible.h"

namespace phidias::scalar {
namespace {

// One query: its row's range of keys, one head.
struct Query {
  const float* query;
  float* out;
  size_t first;
  size_t end;
  const uint64_t* visible;
};

// Calls run(page, first slot, end slot) for what the query sees of positions [begin, end), in
// order.
template <class F>
void each_run(const AttentionArgs& args, const Query& q, size_t begin, size_t end, F&& run) {
  for_each_page_run(q.visible, args.visible_positions, args.page_positions, begin, end, run);
}

void exact_query(const AttentionArgs& args, const Query& q) {
  const size_t dim = args.head_dim;
  const size_t count = q.end - q.first;
  const KvTypeRow& type = kv_type_row(KvType::kF32);
  double* weights = reinterpret_cast<double*>(args.scratch);
  for (size_t j = 0; j < count; ++j) weights[j] = -INFINITY;
  const auto index_of = [&](size_t page, size_t slot) {
    return page * args.page_positions + slot - q.first;
  };

  float largest = -INFINITY;
  each_run(args, q, q.first, q.end, [&](size_t page, size_t from, size_t to) {
    for (size_t slot = from; slot < to; ++slot) {
      float key[kMaxHeadDim];
      type.load_key(args.key_pages[page], slot, key, dim);
      double sum = 0;
      for (size_t d = 0; d < dim; ++d) {
        sum = std::fma(static_cast<double>(key[d]), static_cast<double>(q.query[d]), sum);
      }
      const float score = static_cast<float>(sum * static_cast<double>(args.scale));
      if (score > largest) largest = score;
      weights[index_of(page, slot)] = score;
    }
  });

  double lanes[kDoubleLanes] = {};
  for (size_t j = 0; j < count; ++j) {
    weights[j] = exp_f64(weights[j] - static_cast<double>(largest));
    lanes[j % kDoubleLanes] += weights[j];
  }
  const double sum = fold(lanes);

  double mixed[kMaxHeadDim] = {};
  each_run(args, q, q.first, q.end, [&](size_t page, size_t from, size_t to) {
    for (size_t slot = from; slot < to; ++slot) {
      float value[kMaxHeadDim];
      type.load_value(args.value_pages[page], slot, value, dim);
      const double probability = static_cast<float>(weights[index_of(page, slot)] / sum);
      for (size_t d = 0; d < dim; ++d) {
        mixed[d] = std::fma(probability, static_cast<double>(value[d]), mixed[d]);
      }
    }
  });
  for (size_t d = 0; d < dim; ++d) q.out[d] = static_cast<float>(mixed[d]);
}

// The scale of a stored vector, which its elements are still to be multiplied with: load() is for
// reading them and has done that.
template <KvType kType>
float own_scale(const std::byte* page, size_t slot, size_t dim) {
  if constexpr (kType != KvType::kQ8) return 1;
  const size_t block_bytes = kv_type_row(kType).block_bytes(dim);
  float scale;
  std::memcpy(
      &scale,
      page + slot / kKvBlock * block_bytes + kKvBlock * dim + slot % kKvBlock * sizeof(float),
      sizeof(scale));
  return scale;
}

// The elements without the scale.
template <KvType kType>
void load_key(const std::byte* page, size_t slot, float* key, size_t dim) {
  if constexpr (kType != KvType::kQ8) {
    kv_type_row(kType).load_key(page, slot, key, dim);
  } else {
    const std::byte* block = page + slot / kKvBlock * kv_type_row(kType).block_bytes(dim);
    for (size_t d = 0; d < dim; ++d) {
      key[d] = static_cast<float>(static_cast<int8_t>(block[d * kKvBlock + slot % kKvBlock]));
    }
  }
}
template <KvType kType>
void load_value(const std::byte* page, size_t slot, float* value, size_t dim) {
  if constexpr (kType != KvType::kQ8) {
    kv_type_row(kType).load_value(page, slot, value, dim);
  } else {
    const std::byte* block = page + slot / kKvBlock * kv_type_row(kType).block_bytes(dim);
    for (size_t d = 0; d < dim; ++d) {
      value[d] = static_cast<float>(static_cast<int8_t>(block[slot % kKvBlock * dim + d]));
    }
  }
}

template <KvType kType>
void online_query(const AttentionArgs& args, const Query& q) {
  const size_t dim = args.head_dim;
  float mixed[kMaxHeadDim] = {};
  float largest = -INFINITY;
  float sum = 0;
  for (size_t begin = q.first; begin < q.end;) {
    const size_t page_end = (begin / args.page_positions + 1) * args.page_positions;
    const size_t end = page_end < q.end ? page_end : q.end;

    float weights[kMaxPagePositions];
    float page_largest = -INFINITY;
    bool sees_any = false;
    each_run(args, q, begin, end, [&](size_t page, size_t from, size_t to) {
      sees_any = true;
      for (size_t slot = from; slot < to; ++slot) {
        float key[kMaxHeadDim];
        load_key<kType>(args.key_pages[page], slot, key, dim);
        float score = 0;
        for (size_t d = 0; d < dim; ++d) score = std::fma(key[d], q.query[d], score);
        score = score * own_scale<kType>(args.key_pages[page], slot, dim) * args.scale;
        if (score > page_largest) page_largest = score;
        weights[slot] = score;
      }
    });

    if (sees_any) {
      const float previous = largest;
      if (page_largest > largest) largest = page_largest;
      const float shrink = exp_f32(previous - largest);
      float lanes[kFloatLanes] = {};
      each_run(args, q, begin, end, [&](size_t, size_t from, size_t to) {
        for (size_t slot = from; slot < to; ++slot) {
          weights[slot] = exp_f32(weights[slot] - largest);
          lanes[slot % kFloatLanes] += weights[slot];
        }
      });
      sum = sum * shrink + fold(lanes);

      for (size_t d = 0; d < dim; ++d) mixed[d] *= shrink;
      each_run(args, q, begin, end, [&](size_t page, size_t from, size_t to) {
        for (size_t slot = from; slot < to; ++slot) {
          float value[kMaxHeadDim];
          load_value<kType>(args.value_pages[page], slot, value, dim);
          const float weight = weights[slot] * own_scale<kType>(args.value_pages[page], slot, dim);
          for (size_t d = 0; d < dim; ++d) mixed[d] = std::fma(weight, value[d], mixed[d]);
        }
      });
    }
    begin = end;
  }
  for (size_t d = 0; d < dim; ++d) q.out[d] = mixed[d] / sum;
}

template <void (*kOne)(const AttentionArgs&, const Query&)>
void each_query(const AttentionArgs& args) {
  for (size_t r = 0; r < args.rows; ++r) {
    for (size_t g = 0; g < args.group; ++g) {
      const Query query = {args.queries + r * args.query_stride + g * args.head_dim,
                           args.out + r * args.out_stride + g * args.head_dim, args.first_key[r],
                           args.end_key[r],
                           args.visible == nullptr ? nullptr : args.visible[r * args.group + g]};
      bool sees_any = false;
      each_run(args, query, query.first, query.end,
               [&](size_t, size_t, size_t) { sees_any = true; });
      if (sees_any) {
        kOne(args, query);
      } else {
        std::memset(query.out, 0, args.head_dim * sizeof(float));
      }
    }
  }
}

void scores(const float* query, const float* keys, size_t dim, size_t begin, size_t end,
            float scale, float* out) {
  const KvTypeRow& type = kv_type_row(KvType::kF32);
  for (size_t j = begin; j < end; ++j) {
    float key[kMaxHeadDim];
    type.load_key(reinterpret_cast<const std::byte*>(keys), j, key, dim);
    double sum = 0;
    for (size_t d = 0; d < dim; ++d)
      sum = std::fma(static_cast<double>(key[d]), static_cast<double>(query[d]), sum);
    out[j] = static_cast<float>(sum * static_cast<double>(scale));
  }
}

void mix(const float* probabilities, const float* values, size_t dim, size_t count, float* out) {
  double mixed[kMaxHeadDim] = {};
  for (size_t j = 0; j < count; ++j) {
    const double probability = probabilities[j];
    for (size_t d = 0; d < dim; ++d)
      mixed[d] = std::fma(probability, static_cast<double>(values[j * dim + d]), mixed[d]);
  }
  for (size_t d = 0; d < dim; ++d) out[d] = static_cast<float>(mixed[d]);
}

}  // namespace

void fill_attention(KernelTable& table) {
  table.attention_exact = each_query<exact_query>;
  table.attention_scores = scores;
  table.attention_mix = mix;
  table.attention[index_of(KvType::kF32)] = each_query<online_query<KvType::kF32>>;
  table.attention[index_of(KvType::kF16)] = each_query<online_query<KvType::kF16>>;
  table.attention[index_of(KvType::kBF16)] = each_query<online_query<KvType::kBF16>>;
  table.attention[index_of(KvType::kQ8)] = each_query<online_query<KvType::kQ8>>;
}

}  // namespace phidias::scalar
