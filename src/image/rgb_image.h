// An image in memory: one byte for each of red, green and blue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace phidias {

struct RgbImage {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> bytes;  // [height, width, 3]

  RgbImage() = default;
  // Every byte is `fill`.
  RgbImage(uint32_t columns, uint32_t rows, uint8_t fill = 0)
      : width(columns), height(rows), bytes(size_t{3} * columns * rows, fill) {}

  size_t stride() const { return size_t{3} * width; }
  uint8_t* row(size_t y) { return bytes.data() + y * stride(); }
  const uint8_t* row(size_t y) const { return bytes.data() + y * stride(); }
};

}  // namespace phidias
