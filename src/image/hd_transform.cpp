#include "image/hd_transform.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "image/resize.h"

namespace phidias {

Result<HdGeometry> hd_geometry(uint32_t width, uint32_t height, uint32_t side, uint32_t crops) {
  HdGeometry geometry;
  geometry.transposed = width < height;
  const uint32_t long_side = std::max(width, height);
  const uint32_t short_side = std::min(width, height);
  const double ratio = static_cast<double>(long_side) / short_side;
  uint32_t scale = 1;
  while (scale * std::ceil(scale / ratio) <= crops) ++scale;
  --scale;
  geometry.resized_width = scale * side;
  geometry.resized_height = static_cast<uint32_t>(geometry.resized_width / ratio);
  if (geometry.resized_height == 0) {
    return Error{Code::kInvalidArgument,
                 "an image of " + std::to_string(width) + " x " + std::to_string(height) +
                     " pixels is too narrow: nothing is left of its short side; crop it",
                 {}};
  }
  geometry.rows = (geometry.resized_height + side - 1) / side;
  geometry.columns = scale;
  const uint32_t padding = geometry.rows * side - geometry.resized_height;
  geometry.padding_before = padding / 2;
  geometry.padding_after = padding - geometry.padding_before;
  if (geometry.transposed) std::swap(geometry.rows, geometry.columns);
  return geometry;
}

RgbImage hd_transform(const RgbImage& image, const HdGeometry& geometry) {
  constexpr uint8_t kWhite = 255;
  const bool upright = !geometry.transposed;
  const uint32_t padding = geometry.padding_before + geometry.padding_after;
  uint32_t width = geometry.resized_width;
  uint32_t height = geometry.resized_height;
  if (!upright) std::swap(width, height);
  const RgbImage resized =
      resize_bilinear(image, width, height, upright ? Axis::kHorizontal : Axis::kVertical);
  RgbImage result(width + (upright ? 0 : padding), height + (upright ? padding : 0), kWhite);
  const size_t top = upright ? geometry.padding_before : 0;
  const size_t left = upright ? 0 : geometry.padding_before;
  for (size_t y = 0; y < height; ++y)
    std::copy_n(resized.row(y), resized.stride(), result.row(top + y) + 3 * left);
  return result;
}

}  // namespace phidias
