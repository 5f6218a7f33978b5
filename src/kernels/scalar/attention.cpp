#include <cmath>
#include <cstring>

#include "kernels/scalar/math.h"
#include "kernels/scalar/scalar.h"

namespace phidias::scalar {
namespace {

const std::byte* vector_at(const std::byte* const* pages, size_t page_positions, size_t bytes,
                           size_t position) {
  return pages[position / page_positions] + position % page_positions * bytes;
}

// One query: its row's range of keys, one head.
struct Query {
  const float* query;
  float* out;
  size_t first;
  size_t end;
};

void exact_query(const AttentionArgs& args, const Query& q) {
  const size_t dim = args.head_dim;
  const size_t count = q.end - q.first;
  double* weights = reinterpret_cast<double*>(args.scratch);

  const auto load = [&](const std::byte* const* pages, size_t j, float* vector) {
    const size_t bytes = dim * sizeof(float);
    std::memcpy(vector, vector_at(pages, args.page_positions, bytes, q.first + j), bytes);
  };
  float largest = -INFINITY;
  for (size_t j = 0; j < count; ++j) {
    float key[kMaxHeadDim];
    load(args.key_pages, j, key);
    double lanes[kDoubleLanes] = {};
    for (size_t d = 0; d < dim; ++d) {
      double& lane = lanes[d % kDoubleLanes];
      lane = std::fma(static_cast<double>(q.query[d]), static_cast<double>(key[d]), lane);
    }
    const float score = static_cast<float>(fold(lanes) * static_cast<double>(args.scale));
    if (score > largest) largest = score;
    weights[j] = score;
  }

  double lanes[kDoubleLanes] = {};
  for (size_t j = 0; j < count; ++j) {
    weights[j] = exp_f64(weights[j] - static_cast<double>(largest));
    lanes[j % kDoubleLanes] += weights[j];
  }
  const double sum = fold(lanes);

  double mixed[kMaxHeadDim] = {};
  for (size_t j = 0; j < count; ++j) {
    float value[kMaxHeadDim];
    load(args.value_pages, j, value);
    const double probability = static_cast<float>(weights[j] / sum);
    for (size_t d = 0; d < dim; ++d) {
      mixed[d] = std::fma(probability, static_cast<double>(value[d]), mixed[d]);
    }
  }
  for (size_t d = 0; d < dim; ++d) q.out[d] = static_cast<float>(mixed[d]);
}

// What a stored vector means: value d is scale * load(d). Only KvType::kQ8 has a scale of its own.
struct Stored {
  float values[kMaxHeadDim];
  float scale = 1;
};

template <KvType kType>
Stored load_vector(const std::byte* src, size_t dim) {
  Stored stored;
  if constexpr (kType == KvType::kQ8) {
    for (size_t d = 0; d < dim; ++d) {
      stored.values[d] = static_cast<float>(static_cast<int8_t>(src[d]));
    }
    std::memcpy(&stored.scale, src + (dim + 3) / 4 * 4, sizeof(float));
  } else {
    kv_type_row(kType).load(src, stored.values, dim);
  }
  return stored;
}

template <KvType kType>
void online_query(const AttentionArgs& args, const Query& q) {
  const size_t dim = args.head_dim;
  const size_t bytes = kv_type_row(kType).vector_bytes(dim);
  float mixed[kMaxHeadDim] = {};
  float largest = -INFINITY;
  float sum = 0;
  for (size_t begin = q.first; begin < q.end;) {
    const size_t page = begin / args.page_positions;
    const size_t page_begin = page * args.page_positions;
    const size_t page_end = page_begin + args.page_positions;
    const size_t end = page_end < q.end ? page_end : q.end;

    float scores[kMaxPagePositions];
    float block_largest = -INFINITY;
    for (size_t j = begin; j < end; ++j) {
      const Stored key = load_vector<kType>(args.key_pages[page] + (j - page_begin) * bytes, dim);
      float lanes[kFloatLanes] = {};
      for (size_t d = 0; d < dim; ++d) {
        float& lane = lanes[d % kFloatLanes];
        lane = std::fma(q.query[d], key.values[d], lane);
      }
      const float score = fold(lanes) * key.scale * args.scale;
      if (score > block_largest) block_largest = score;
      scores[j - page_begin] = score;
    }

    const float previous = largest;
    if (block_largest > largest) largest = block_largest;
    const float shrink = exp_f32(previous - largest);
    float lanes[kFloatLanes] = {};
    for (size_t j = begin - page_begin; j < end - page_begin; ++j) {
      scores[j] = exp_f32(scores[j] - largest);
      lanes[j % kFloatLanes] += scores[j];
    }
    sum = sum * shrink + fold(lanes);

    for (size_t d = 0; d < dim; ++d) mixed[d] *= shrink;
    for (size_t j = begin; j < end; ++j) {
      const Stored value =
          load_vector<kType>(args.value_pages[page] + (j - page_begin) * bytes, dim);
      const float weight = scores[j - page_begin] * value.scale;
      for (size_t d = 0; d < dim; ++d) mixed[d] = std::fma(weight, value.values[d], mixed[d]);
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
                           args.end_key[r]};
      if (query.first < query.end) {
        kOne(args, query);
      } else {
        std::memset(query.out, 0, args.head_dim * sizeof(float));
      }
    }
  }
}

}  // namespace

void fill_attention(KernelTable& table) {
  table.attention_exact = each_query<exact_query>;
  table.attention[index_of(KvType::kF32)] = each_query<online_query<KvType::kF32>>;
  table.attention[index_of(KvType::kF16)] = each_query<online_query<KvType::kF16>>;
  table.attention[index_of(KvType::kBF16)] = each_query<online_query<KvType::kBF16>>;
  table.attention[index_of(KvType::kQ8)] = each_query<online_query<KvType::kQ8>>;
}

}  // namespace phidias::scalar
