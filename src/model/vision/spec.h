// A vision tower and the way from an image to rows of the decoder, as data. Source: models-other.md
// of the reference, section 6; the CLIP vision transformer.
#pragma once

#include <cstdint>

#include "image/tiles.h"

namespace phidias {

struct VisionSpec {
  uint32_t width = 0;
  uint32_t layers = 0;         // that run: the features are the output of the last of them
  uint32_t stored_layers = 0;  // in the file
  uint32_t heads = 0;
  uint32_t ffn_width = 0;
  uint32_t side = 0;   // of a tile, in pixels
  uint32_t patch = 0;  // side of a patch
  float norm_epsilon = 1e-5F;

  // How an image becomes tiles; a checkpoint states it beside its configuration.
  uint32_t crops = 0;  // tiles of an image at most, the whole image not counted
  ChannelStatistics statistics;

  uint32_t head_dim() const { return width / heads; }
  uint32_t grid() const { return side / patch; }              // patches along a side
  uint32_t positions() const { return grid() * grid() + 1; }  // patches and the class token
  uint32_t patch_values() const { return 3 * patch * patch; }
  // Squares of four patches are one row of features.
  uint32_t merged_grid() const { return grid() / 2; }
  uint32_t merged_width() const { return 4 * width; }
  // Rows of an image of rows x columns tiles: each line of merged patches ends with a separator, in
  // the tiles and in the whole image; one more stands between the two.
  uint64_t image_rows(uint64_t rows, uint64_t columns) const {
    const uint64_t merged = merged_grid();
    return (rows * columns + 1) * merged * merged + 1 + (rows + 1) * merged;
  }
};

}  // namespace phidias
