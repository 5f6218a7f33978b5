// The high-definition transform of Phi-3-vision: an image becomes a grid of square tiles, as many
// as fit its shape. Source: models-other.md of the reference, section 6.1; the published image
// processor.
#pragma once

#include <cstdint>

#include "image/rgb_image.h"
#include "phidias/status.h"

namespace phidias {

struct HdGeometry {
  bool transposed = false;  // taller than wide: what follows, up to the padding, lies on its side
  uint32_t resized_width = 0;
  uint32_t resized_height = 0;
  uint32_t padding_before = 0;  // white rows above
  uint32_t padding_after = 0;   // and below
  uint32_t rows = 0;            // of tiles, in the image as it stands
  uint32_t columns = 0;

  uint32_t tiles() const { return rows * columns; }
};

// How an image of width x height pixels, each at least 1, is cut into at most `crops` >= 1 tiles of
// `side` pixels. Errors: kInvalidArgument where nothing would be left of the short side.
Result<HdGeometry> hd_geometry(uint32_t width, uint32_t height, uint32_t side, uint32_t crops);

// The image resized and padded: [rows * side, columns * side]. May throw std::bad_alloc.
RgbImage hd_transform(const RgbImage& image, const HdGeometry& geometry);

}  // namespace phidias
