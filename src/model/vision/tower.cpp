#include "model/vision/tower.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/spec.h"

namespace phidias {
namespace {

constexpr size_t kPagePositions = 64;
constexpr size_t kTileRows = 32;  // queries of one task

// The tower's attention, as the layout of a cache of one layer sees it.
KvLayout attention_layout(const VisionSpec& spec) {
  ModelSpec attention;
  attention.layers = 1;
  attention.attention.heads = attention.attention.kv_heads = spec.heads;
  attention.attention.head_dim = spec.head_dim();
  return {attention, KvType::kF32, kPagePositions};
}

}  // namespace

VisionTower::VisionTower(const VisionSpec& spec, const VisionWeights& weights)
    : spec_(&spec),
      weights_(&weights),
      layout_(attention_layout(spec)),
      rows_(spec.positions()),
      stream_(rows_ * spec.width),
      qkv_(rows_ * 3 * spec.width),
      pages_((rows_ + kPagePositions - 1) / kPagePositions * layout_.page_bytes()),
      first_keys_(rows_, 0),
      end_keys_(rows_, static_cast<uint32_t>(rows_)),
      hidden_(rows_ * spec.ffn_width),
      contribution_(rows_ * spec.width) {}

const float* VisionTower::run(std::span<const float> pixels, size_t index, const ImageTap& tap,
                              RunContext& context) {
  auto visit = [&](ImageSite site, size_t layer) {
    if (tap) tap({site, index, layer, stream_.data(), rows_, spec_->width});
  };
  embed(pixels, context);
  visit(ImageSite::kEmbeddings, 0);
  for (size_t layer = 0; layer < weights_->layers.size(); ++layer) {
    attention(weights_->layers[layer], context);
    feed_forward(weights_->layers[layer], context);
    visit(ImageSite::kLayerOutput, layer);
  }
  return stream_.data();
}

void VisionTower::embed(std::span<const float> pixels, RunContext& context) {
  const size_t side = spec_->side;
  const size_t patch = spec_->patch;
  const size_t grid = spec_->grid();
  const size_t width = spec_->width;
  patches_.resize(rows_ - 1, spec_->patch_values());
  for (size_t p = 0; p < rows_ - 1; ++p) {
    const size_t corner = p / grid * patch * side + p % grid * patch;
    float* out = patches_.row(p);
    for (size_t channel = 0; channel < 3; ++channel) {
      for (size_t y = 0; y < patch; ++y, out += patch)
        std::copy_n(pixels.data() + (channel * side + y) * side + corner, patch, out);
    }
  }
  std::copy(weights_->class_embedding.begin(), weights_->class_embedding.end(), stream_.data());
  linear(context, weights_->patch, patches_, stream_.data() + width, width);
  context.kernels->add(stream_.data(), weights_->positions.data(), rows_ * width);
  norm(weights_->first_norm, stream_.data(), stream_.data(), context);
}

void VisionTower::norm(const NormWeights& weights, const float* in, float* out,
                       RunContext& context) const {
  const size_t width = spec_->width;
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      context.kernels->layer_norm(in + r * width, weights.weight.data(), weights.bias.data(),
                                  spec_->norm_epsilon, out + r * width, width);
    }
  });
}

// stream += W x + bias
void VisionTower::add_projection(const ProjectionWeights& weights, Activations& x,
                                 RunContext& context) {
  const size_t width = spec_->width;
  linear(context, weights.weight, x, contribution_.data(), width);
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      context.kernels->add(contribution_.data() + r * width, weights.bias.data(), width);
      context.kernels->add(stream_.data() + r * width, contribution_.data() + r * width, width);
    }
  });
}

void VisionTower::attention(const VisionLayerWeights& layer, RunContext& context) {
  const size_t width = spec_->width;
  norm(layer.attention_norm, stream_.data(), normed_.resize(rows_, width), context);
  linear(context, layer.qkv.weight, normed_, qkv_.data(), 3 * width);
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r)
      context.kernels->add(qkv_.data() + r * 3 * width, layer.qkv.bias.data(), 3 * width);
  });
  store_keys_and_values(context);

  heads_.resize(rows_, width);
  context.reserve_scratch(attention_scratch_floats(rows_, layout_.head_dim));
  const size_t threads = context.threads->threads();
  page_lists_.resize(threads);
  // Workers must not allocate.
  for (auto& list : page_lists_) list.resize(2 * ((rows_ + kPagePositions - 1) / kPagePositions));
  const size_t tiles = (rows_ + kTileRows - 1) / kTileRows;
  context.threads->run(tiles * spec_->heads, 1, [&](size_t begin, size_t end, size_t thread) {
    for (size_t task = begin; task < end; ++task) {
      const size_t first_row = task % tiles * kTileRows;
      attend(task / tiles, first_row, std::min(kTileRows, rows_ - first_row), thread, context);
    }
  });
  add_projection(layer.attention_output, heads_, context);
}

void VisionTower::store_keys_and_values(RunContext& context) {
  const size_t width = spec_->width;
  const size_t dim = layout_.head_dim;
  const KvStoreFn store_key = context.kernels->store_key[index_of(layout_.type)];
  const KvStoreFn store_value = context.kernels->store_value[index_of(layout_.type)];
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      const float* keys = qkv_.data() + r * 3 * width + width;
      std::byte* page = pages_.data() + r / kPagePositions * layout_.page_bytes();
      const size_t slot = r % kPagePositions;
      for (size_t h = 0; h < spec_->heads; ++h) {
        store_key(keys + h * dim, page + layout_.key_offset(0, h), slot, dim);
        store_value(keys + width + h * dim, page + layout_.value_offset(0, h), slot, dim);
      }
    }
  });
}

void VisionTower::attend(size_t head, size_t first_row, size_t rows, size_t thread,
                         RunContext& context) {
  const size_t width = spec_->width;
  const size_t dim = layout_.head_dim;
  auto& pages = page_lists_[thread];
  const size_t count = pages.size() / 2;
  for (size_t p = 0; p < count; ++p) {
    const std::byte* page = pages_.data() + p * layout_.page_bytes();
    pages[p] = page + layout_.key_offset(0, head);
    pages[count + p] = page + layout_.value_offset(0, head);
  }
  AttentionArgs args;
  args.key_pages = pages.data();
  args.value_pages = pages.data() + count;
  args.page_positions = kPagePositions;
  args.head_dim = dim;
  args.group = 1;
  args.queries = qkv_.data() + first_row * 3 * width + head * dim;
  args.query_stride = 3 * width;
  args.out = heads_.row(first_row) + head * dim;
  args.out_stride = width;
  args.rows = rows;
  args.first_key = first_keys_.data() + first_row;
  args.end_key = end_keys_.data() + first_row;
  args.scale = 1.0F / std::sqrt(static_cast<float>(dim));
  args.scratch = context.scratch[thread].data();
  const KernelTable& kernels = *context.kernels;
  (context.numerics == Numerics::kExact ? kernels.attention_exact
                                        : kernels.attention[index_of(layout_.type)])(args);
}

void VisionTower::feed_forward(const VisionLayerWeights& layer, RunContext& context) {
  // x sigmoid(1.702 x) is silu(1.702 x) / 1.702.
  constexpr float kSlope = 1.702F;
  constexpr size_t kPiece = 64;
  constexpr auto kInverse = [] {
    std::array<float, kPiece> all{};
    all.fill(1.0F / kSlope);
    return all;
  }();
  const size_t ffn_width = spec_->ffn_width;
  norm(layer.ffn_norm, stream_.data(), normed_.resize(rows_, spec_->width), context);
  linear(context, layer.up.weight, normed_, hidden_.data(), ffn_width);
  neurons_.resize(rows_, ffn_width);
  context.threads->run(rows_, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      float* hidden = hidden_.data() + r * ffn_width;
      for (size_t i = 0; i < ffn_width; ++i) hidden[i] = (hidden[i] + layer.up.bias[i]) * kSlope;
      for (size_t i = 0; i < ffn_width; i += kPiece) {
        context.kernels->silu_mul(hidden + i, kInverse.data(), neurons_.row(r) + i,
                                  std::min(kPiece, ffn_width - i));
      }
    }
  });
  add_projection(layer.down, neurons_, context);
}

}  // namespace phidias
