// Bilinear resizing to the same bytes as Pillow's.
#pragma once

#include "image/rgb_image.h"

namespace phidias {

enum class Axis { kHorizontal, kVertical };

// Pillow's Image.resize(..., BILINEAR) up to release 12: one axis after the other, each result
// rounded to bytes, with weights of 22 fractional bits and a triangle filter that is widened by the
// scale when shrinking. An axis that keeps its size is not touched.
//   first   the axis that goes first; Pillow's is the horizontal one, and an image that lies
//           transposed is resized as if it stood by beginning with the vertical one
// Sizes are at least 1. May throw std::bad_alloc.
RgbImage resize_bilinear(const RgbImage& image, uint32_t width, uint32_t height,
                         Axis first = Axis::kHorizontal);

}  // namespace phidias
