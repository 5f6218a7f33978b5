// Pixels as the vision tower reads them: normalised floats, tile by tile.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "image/rgb_image.h"

namespace phidias {

// Of each channel, on a scale of 0 to 1.
struct ChannelStatistics {
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{};
};

// Tile 0 is the whole image shrunk to one tile, the others are its parts row by row.
struct ImageTiles {
  uint32_t side = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
  std::vector<float> values;  // [1 + rows * columns, 3, side, side]

  size_t count() const { return 1 + size_t{rows} * columns; }
  std::span<const float> tile(size_t i) const {
    const size_t size = size_t{3} * side * side;
    return {values.data() + i * size, size};
  }
};

// (byte / 255 - mean) / deviation, in f32. The image's sides are multiples of `side`; it is shrunk
// by torch's bicubic interpolation without antialiasing (a = -0.75), columns first: for an odd
// ratio the middle pixel, for an even one the four around the middle.
// May throw std::bad_alloc.
ImageTiles make_tiles(const RgbImage& image, uint32_t side, const ChannelStatistics& statistics);

}  // namespace phidias
