#include "api/random_weights.h"

#include <cmath>
#include <cstring>
#include <new>

#include "base/memory.h"
#include "base/random.h"
#include "base/system_memory.h"
#include "base/try.h"

namespace phidias {
namespace {

constexpr size_t kUnitColumns =
    256;  // columns that are encoded and copied together, where they fit
constexpr size_t kPoolUnits = 512;
constexpr double kDeviation = 0.02;  // of the published models' initial weights

// Mixes the bits of a counter (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014).
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Of two uniform numbers (Box and Muller).
float normal(uint64_t counter) {
  const double u = open_uniform(mixed(2 * counter));
  const double v = open_uniform(mixed(2 * counter + 1));
  return static_cast<float>(kDeviation * std::sqrt(-2 * std::log(u)) *
                            std::cos(2 * 3.14159265358979323846 * v));
}

size_t unit_columns(const FormatRow& format, size_t cols) {
  return kUnitColumns % format.block_values == 0 && cols % kUnitColumns == 0
             ? kUnitColumns
             : size_t{format.block_values};
}

// Encoded units of one format: a few columns of the rows of a tile.
struct Pool {
  size_t columns = 0;
  size_t bytes = 0;
  std::vector<std::byte> units;

  Pool(const FormatRow& format, size_t cols, uint64_t seed)
      : columns(unit_columns(format, cols)),
        bytes(format.tile_bytes(columns)),
        units(kPoolUnits * bytes) {
    std::vector<float> values(format.tile_rows * columns);
    for (size_t u = 0; u < kPoolUnits; ++u) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = normal(seed + u * values.size() + i);
      format.encode_tile(values.data(), format.tile_rows, nullptr, units.data() + u * bytes,
                         columns);
    }
  }
};

struct Wanted {
  Matrix* matrix;
  size_t rows, cols;
  TensorRole role;
  size_t layer;
};

}  // namespace

Result<Matrix> random_matrix(size_t rows, size_t cols, Format format, uint64_t seed,
                             ParallelFor& threads) {
  const FormatRow& row = format_row(format);
  const Pool pool(row, cols, seed << 32);
  const size_t units_per_tile = cols / pool.columns;
  const size_t units = (rows + row.tile_rows - 1) / row.tile_rows * units_per_tile;
  std::shared_ptr<AlignedBuffer<std::byte>> data;
  try {
    data = std::make_shared<AlignedBuffer<std::byte>>(units * pool.bytes);
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory,
                 "no memory for " + std::to_string(units * pool.bytes) + " bytes of weights",
                 {}};
  }
  threads.run(units, units_per_tile, [&](size_t begin, size_t end, size_t) {
    for (size_t u = begin; u < end; ++u) {
      const size_t chosen = mixed(seed * 0x10001 + u) % kPoolUnits;
      std::memcpy(data->data() + u * pool.bytes, pool.units.data() + chosen * pool.bytes,
                  pool.bytes);
    }
  });
  const std::byte* begin = data->data();
  return Matrix{.rows = rows, .cols = cols, .blocks = {{format, begin, rows, std::move(data)}}};
}

Result<ModelWeights> random_weights(const ModelSpec& spec, const Recipe& recipe,
                                    ParallelFor& threads) {
  if (recipe.base.empty()) {
    return Error{Code::kInvalidArgument,
                 "random weights have no type of their own: name one",
                 {{}, {}, "weights"}};
  }
  const auto vector = [](size_t size, float value) { return std::vector<float>(size, value); };
  const bool centred = spec.norm == Norm::kLayer;
  const auto norm_bias = [&] { return vector(centred ? spec.width : 0, 0.0F); };
  ModelWeights weights;
  weights.layers.resize(spec.layers);
  weights.final_norm = vector(spec.width, 1.0F);
  weights.final_norm_bias = norm_bias();
  if (spec.bias.head) weights.head_bias = vector(spec.vocab, 0.0F);
  std::vector<Wanted> all;
  all.push_back({&weights.embedding, spec.vocab, spec.width,
                 spec.tied_head ? TensorRole::kHead : TensorRole::kEmbedding, 0});
  const auto add_ffn = [&](Matrix& gate_up, Matrix& down, size_t layer) {
    all.push_back({&gate_up, size_t{2} * spec.ffn_width, spec.width, TensorRole::kGateUp, layer});
    all.push_back({&down, spec.width, spec.ffn_width, TensorRole::kDown, layer});
  };
  for (size_t i = 0; i < spec.layers; ++i) {
    LayerWeights& layer = weights.layers[i];
    const size_t query_width = spec.attention.query_width();
    layer.attention_norm = layer.ffn_norm = vector(spec.width, 1.0F);
    layer.attention_norm_bias = layer.ffn_norm_bias = norm_bias();
    if (spec.bias.qkv) layer.qkv_bias = vector(spec.attention.qkv_width(), 0.0F);
    if (spec.bias.attention_output) layer.attention_output_bias = vector(spec.width, 0.0F);
    all.push_back({&layer.qkv, spec.attention.qkv_width(), spec.width, TensorRole::kQkv, i});
    all.push_back(
        {&layer.attention_output, spec.width, query_width, TensorRole::kAttentionOutput, i});
    if (spec.experts) {
      all.push_back({&layer.router, spec.experts->count, spec.width, TensorRole::kOther, i});
      layer.experts.resize(spec.experts->count);
      for (ExpertWeights& expert : layer.experts) add_ffn(expert.gate_up, expert.down, i);
    } else {
      if (spec.bias.ffn) {
        layer.gate_up_bias = vector(size_t{2} * spec.ffn_width, 0.0F);
        layer.down_bias = vector(spec.width, 0.0F);
      }
      add_ffn(layer.gate_up, layer.down, i);
    }
  }
  if (!spec.tied_head) all.push_back({&weights.head, spec.vocab, spec.width, TensorRole::kHead, 0});

  const auto format_of = [&](const Wanted& wanted) {
    return recipe.choose(wanted.role, wanted.layer, spec.layers, wanted.cols, Format::kF32);
  };
  uint64_t needed = 0;
  for (const Wanted& wanted : all)
    needed += format_row(format_of(wanted)).matrix_bytes(wanted.rows, wanted.cols);
  const uint64_t available = available_memory();
  if (needed > available) {
    return Error{Code::kOutOfMemory,
                 "the weights would take " + std::to_string(needed) + " bytes as " +
                     std::string(recipe.shown.name) + ", and " + std::to_string(available) +
                     " are free; choose a type of fewer bits, fewer layers or a smaller shape",
                 {{}, {}, "shape"}};
  }
  for (size_t i = 0; i < all.size(); ++i) {
    PHIDIAS_TRY(*all[i].matrix,
                random_matrix(all[i].rows, all[i].cols, format_of(all[i]), i + 1, threads));
  }
  if (spec.tied_head) weights.head = weights.embedding;
  return weights;
}

}  // namespace phidias
