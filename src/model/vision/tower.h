// The vision tower: a tile of pixels to one vector per patch.
#pragma once

#include <span>
#include <vector>

#include "base/memory.h"
#include "model/blocks/linear.h"
#include "model/kv_layout.h"
#include "model/run_context.h"
#include "model/vision/spec.h"
#include "model/vision/weights.h"
#include "phidias/image.h"

namespace phidias {

// A CLIP vision transformer: patches, class token and positions, a norm, then layers of norm ->
// attention over all positions -> add, norm -> up -> quick GELU -> down -> add. Holds the buffers
// of one tile; one call at a time. Spec and weights must outlive it.
//
// Same bits: a tile's result depends on its pixels alone, not on the threads.
class VisionTower {
 public:
  // May throw std::bad_alloc, as may run().
  VisionTower(const VisionSpec& spec, const VisionWeights& weights);

  //   pixels   [3, side, side], normalised
  //   index    of the tile, for `tap`, which may be empty
  // The output [positions, W] stays until the next call; row 0 is the class token's.
  const float* run(std::span<const float> pixels, size_t index, const ImageTap& tap,
                   RunContext& context);

 private:
  void embed(std::span<const float> pixels, RunContext& context);
  void attention(const VisionLayerWeights& layer, RunContext& context);
  void feed_forward(const VisionLayerWeights& layer, RunContext& context);
  void norm(const NormWeights& weights, const float* in, float* out, RunContext& context) const;
  void add_projection(const ProjectionWeights& weights, Activations& x, RunContext& context);
  void store_keys_and_values(RunContext& context);
  void attend(size_t head, size_t first_row, size_t rows, size_t thread, RunContext& context);

  const VisionSpec* spec_;
  const VisionWeights* weights_;
  KvLayout layout_;              // of one layer's keys and values
  size_t rows_;                  // positions
  Activations patches_;          // [rows - 1, 3 patch^2]
  AlignedBuffer<float> stream_;  // [rows, W]
  Activations normed_;           // [rows, W]
  AlignedBuffer<float> qkv_;     // [rows, 3 W]
  AlignedBuffer<std::byte> pages_;
  std::vector<uint32_t> first_keys_;                       // [rows]: 0
  std::vector<uint32_t> end_keys_;                         // [rows]: rows
  std::vector<std::vector<const std::byte*>> page_lists_;  // per thread: keys, then values
  Activations heads_;                                      // [rows, W]
  AlignedBuffer<float> hidden_;                            // [rows, F]
  Activations neurons_;                                    // [rows, F]
  AlignedBuffer<float> contribution_;                      // [rows, W]
};

}  // namespace phidias
