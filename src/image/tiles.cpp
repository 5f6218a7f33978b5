#include "image/tiles.h"

#include <algorithm>

namespace phidias {
namespace {

// The interpolation along one axis of `ratio * n` values: output i is the sum of the taps' weights
// times the inputs around its middle.
struct Shrink {
  size_t ratio;
  size_t last;  // index of the last input: beyond it, it is repeated

  float operator()(size_t i, const float* values, size_t stride) const {
    const size_t middle = i * ratio + (ratio - 1) / 2;
    auto at = [&](size_t index) { return values[std::min(index, last) * stride]; };
    if (ratio % 2 != 0) return at(middle);
    constexpr float kOuter = -0.09375F;
    constexpr float kInner = 0.59375F;
    float sum = at(middle - (middle > 0 ? 1 : 0)) * kOuter;
    sum += at(middle) * kInner;
    sum += at(middle + 1) * kInner;
    sum += at(middle + 2) * kOuter;
    return sum;
  }
};

}  // namespace

ImageTiles make_tiles(const RgbImage& image, uint32_t side, const ChannelStatistics& statistics) {
  ImageTiles tiles{
      .side = side, .rows = image.height / side, .columns = image.width / side, .values = {}};
  const size_t plane = size_t{side} * side;
  tiles.values.resize(tiles.count() * 3 * plane);
  const Shrink by_columns{tiles.columns, image.width - 1};
  const Shrink by_rows{tiles.rows, image.height - 1};
  std::vector<float> line(image.width);                    // a row of the image, one channel
  std::vector<float> narrow(size_t{image.height} * side);  // all rows, shrunk
  for (size_t channel = 0; channel < 3; ++channel) {
    std::array<float, 256> normalised;
    for (size_t byte = 0; byte < normalised.size(); ++byte) {
      normalised[byte] = (static_cast<float>(byte) / 255.0F - statistics.mean[channel]) /
                         statistics.deviation[channel];
    }
    for (size_t y = 0; y < image.height; ++y) {
      const uint8_t* pixels = image.row(y) + channel;
      for (size_t x = 0; x < line.size(); ++x) line[x] = normalised[pixels[3 * x]];
      for (size_t x = 0; x < side; ++x) narrow[y * side + x] = by_columns(x, line.data(), 1);
      for (size_t column = 0; column < tiles.columns; ++column) {
        const size_t tile = 1 + y / side * tiles.columns + column;
        std::copy_n(line.data() + column * side, side,
                    tiles.values.data() + (tile * 3 + channel) * plane + y % side * side);
      }
    }
    float* whole = tiles.values.data() + channel * plane;
    for (size_t y = 0; y < side; ++y) {
      for (size_t x = 0; x < side; ++x) whole[y * side + x] = by_rows(y, narrow.data() + x, side);
    }
  }
  return tiles;
}

}  // namespace phidias
