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

}  // namespace

// Units of one format: a few columns of the rows of a tile.
struct RandomBlocks::Pool {
  size_t columns = 0;
  size_t bytes = 0;
  std::vector<std::byte> units;

  Pool(const FormatRow& format, size_t unit)
      : columns(unit), bytes(format.tile_bytes(columns)), units(kPoolUnits * bytes) {
    std::vector<float> values(format.tile_rows * columns);
    for (size_t u = 0; u < kPoolUnits; ++u) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = normal(u * values.size() + i);
      format.encode_tile(values.data(), format.tile_rows, nullptr, units.data() + u * bytes,
                         columns);
    }
  }
};

RandomBlocks::RandomBlocks() = default;
RandomBlocks::~RandomBlocks() = default;

const RandomBlocks::Pool& RandomBlocks::of(Format format, size_t cols) {
  const FormatRow& row = format_row(format);
  const size_t unit = unit_columns(row, cols);
  auto& pool = pools_[{format, unit}];
  if (pool == nullptr) pool = std::make_unique<const Pool>(row, unit);
  return *pool;
}

Result<Matrix> UnfilledMatrix::allocate(size_t rows, size_t cols, Format format) {
  const size_t bytes = format_row(format).matrix_bytes(rows, cols);
  std::shared_ptr<AlignedBuffer<std::byte>> memory;
  try {
    memory = std::make_shared<AlignedBuffer<std::byte>>(bytes);
  } catch (const std::bad_alloc&) {
    return Error{
        Code::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes of weights", {}};
  }
  rows_ = rows;
  cols_ = cols;
  format_ = format;
  data_ = memory->data();
  const std::byte* begin = data_;
  return Matrix{.rows = rows, .cols = cols, .blocks = {{format, begin, rows, std::move(memory)}}};
}

void UnfilledMatrix::fill(uint64_t seed, RandomBlocks& blocks, ParallelFor& threads) const {
  const FormatRow& row = format_row(format_);
  const RandomBlocks::Pool& pool = blocks.of(format_, cols_);
  const size_t units_per_tile = cols_ / pool.columns;
  const size_t units = (rows_ + row.tile_rows - 1) / row.tile_rows * units_per_tile;
  threads.run(units, units_per_tile, [&](size_t begin, size_t end, size_t) {
    for (size_t u = begin; u < end; ++u) {
      const size_t chosen = mixed(seed * 0x10001 + u) % kPoolUnits;
      std::memcpy(data_ + u * pool.bytes, pool.units.data() + chosen * pool.bytes, pool.bytes);
    }
  });
}

Result<Matrix> random_matrix(size_t rows, size_t cols, Format format, uint64_t seed,
                             ParallelFor& threads) {
  UnfilledMatrix unfilled;
  PHIDIAS_TRY(Matrix matrix, unfilled.allocate(rows, cols, format));
  RandomBlocks blocks;
  unfilled.fill(seed, blocks, threads);
  return matrix;
}

namespace {

struct Wanted {
  Matrix* matrix;
  size_t rows, cols;
  TensorRole role;
  size_t layer;
  Format stored = Format::kF32;  // where no recipe chooses
};

// Sizes the vectors and lists the matrices of a model.
class WeightPlan {
 public:
  WeightPlan(const ModelSpec& spec, ModelWeights& weights) : spec_(spec) {
    weights.layers.resize(spec.layers);
    norm(weights.final_norm, weights.final_norm_bias);
    if (spec.bias.head) weights.head_bias.assign(spec.vocab, 0.0F);
    all.push_back({&weights.embedding, spec.vocab, spec.width,
                   spec.tied_head ? TensorRole::kHead : TensorRole::kEmbedding, 0});
    for (size_t i = 0; i < spec.layers; ++i) add_layer(weights.layers[i], i);
    if (!spec.tied_head)
      all.push_back({&weights.head, spec.vocab, spec.width, TensorRole::kHead, 0});
    if (spec.vision) add_tower(*spec.vision, weights.vision.emplace());
  }

  std::vector<Wanted> all;

 private:
  void norm(std::vector<float>& weight, std::vector<float>& bias) const {
    weight.assign(spec_.width, 1.0F);
    bias.assign(spec_.norm == Norm::kLayer ? spec_.width : 0, 0.0F);
  }
  void add_layer(LayerWeights& layer, size_t i) {
    const size_t query_width = spec_.attention.query_width();
    norm(layer.attention_norm, layer.attention_norm_bias);
    norm(layer.ffn_norm, layer.ffn_norm_bias);
    if (spec_.bias.qkv) layer.qkv_bias.assign(spec_.attention.qkv_width(), 0.0F);
    if (spec_.bias.attention_output) layer.attention_output_bias.assign(spec_.width, 0.0F);
    all.push_back({&layer.qkv, spec_.attention.qkv_width(), spec_.width, TensorRole::kQkv, i});
    all.push_back(
        {&layer.attention_output, spec_.width, query_width, TensorRole::kAttentionOutput, i});
    if (spec_.experts) {
      all.push_back({&layer.router, spec_.experts->count, spec_.width, TensorRole::kOther, i});
      layer.experts.resize(spec_.experts->count);
      for (ExpertWeights& expert : layer.experts) add_ffn(expert.gate_up, expert.down, i);
    } else {
      if (spec_.bias.ffn) {
        layer.gate_up_bias.assign(size_t{2} * spec_.ffn_width, 0.0F);
        layer.down_bias.assign(spec_.width, 0.0F);
      }
      add_ffn(layer.gate_up, layer.down, i);
    }
  }
  void add_ffn(Matrix& gate_up, Matrix& down, size_t layer) {
    all.push_back({&gate_up, size_t{2} * spec_.ffn_width, spec_.width, TensorRole::kGateUp, layer});
    all.push_back({&down, spec_.width, spec_.ffn_width, TensorRole::kDown, layer});
  }
  void add_tower(const VisionSpec& tower, VisionWeights& weights) {
    const auto norm_of = [&](NormWeights& of) {
      of.weight.assign(tower.width, 1.0F);
      of.bias.assign(tower.width, 0.0F);
    };
    const auto projection = [&](ProjectionWeights& of, size_t rows, size_t cols) {
      of.bias.assign(rows, 0.0F);
      all.push_back({&of.weight, rows, cols, TensorRole::kTower, 0, Format::kBF16});
    };
    all.push_back(
        {&weights.patch, tower.width, tower.patch_values(), TensorRole::kOther, 0, Format::kBF16});
    weights.class_embedding.assign(tower.width, 0.0F);
    weights.positions.assign(size_t{tower.positions()} * tower.width, 0.0F);
    norm_of(weights.first_norm);
    weights.layers.resize(tower.layers);
    for (VisionLayerWeights& layer : weights.layers) {
      norm_of(layer.attention_norm);
      norm_of(layer.ffn_norm);
      projection(layer.qkv, size_t{3} * tower.width, tower.width);
      projection(layer.attention_output, tower.width, tower.width);
      projection(layer.up, tower.ffn_width, tower.width);
      projection(layer.down, tower.width, tower.ffn_width);
    }
    weights.line_separator.assign(tower.merged_width(), 0.0F);
    weights.image_separator.assign(tower.merged_width(), 0.0F);
    projection(weights.projection[0], spec_.width, tower.merged_width());
    projection(weights.projection[1], spec_.width, spec_.width);
  }

  const ModelSpec& spec_;
};

}  // namespace

Result<UnfilledWeights> unfilled_weights(const ModelSpec& spec, const Recipe& recipe) {
  if (recipe.base.empty()) {
    return Error{Code::kInvalidArgument,
                 "random weights have no type of their own: name one",
                 {{}, {}, "weights"}};
  }
  UnfilledWeights result;
  const WeightPlan plan(spec, result.weights);
  for (const Wanted& wanted : plan.all) {
    const Format format =
        recipe.choose(wanted.role, wanted.layer, spec.layers, wanted.cols, wanted.stored);
    PHIDIAS_TRY(*wanted.matrix,
                result.matrices.emplace_back().allocate(wanted.rows, wanted.cols, format));
  }
  if (spec.tied_head) result.weights.head = result.weights.embedding;
  return result;
}

Result<ModelWeights> random_weights(const ModelSpec& spec, const Recipe& recipe,
                                    ParallelFor& threads) {
  PHIDIAS_TRY(UnfilledWeights unfilled, unfilled_weights(spec, recipe));
  const uint64_t needed = unfilled.weights.bytes(spec);
  const uint64_t available = available_memory();
  if (needed > available) {
    return Error{Code::kOutOfMemory,
                 "the weights would take " + std::to_string(needed) + " bytes as " +
                     std::string(recipe.shown.name) + ", and " + std::to_string(available) +
                     " are free; choose a type of fewer bits, fewer layers or a smaller shape",
                 {{}, {}, "shape"}};
  }
  RandomBlocks blocks;
  for (size_t i = 0; i < unfilled.matrices.size(); ++i)
    unfilled.matrices[i].fill(i + 1, blocks, threads);
  return std::move(unfilled.weights);
}

}  // namespace phidias
