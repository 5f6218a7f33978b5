#include "image/resize.h"

#include <gtest/gtest.h>

#include <random>

namespace phidias {
namespace {

RgbImage noise(uint32_t width, uint32_t height, unsigned seed) {
  std::mt19937 random(seed);
  RgbImage image(width, height);
  for (uint8_t& byte : image.bytes) byte = static_cast<uint8_t>(random());
  return image;
}

RgbImage transposed(const RgbImage& image) {
  RgbImage result(image.height, image.width);
  for (size_t y = 0; y < image.height; ++y) {
    for (size_t x = 0; x < image.width; ++x)
      std::copy_n(image.row(y) + 3 * x, 3, result.row(x) + 3 * y);
  }
  return result;
}

TEST(ResizeBilinear, AConstantImageStaysConstant) {
  const RgbImage grey(13, 7, 201);
  for (const auto& [width, height] : {std::pair{1U, 1U}, {40U, 3U}, {5U, 70U}, {13U, 7U}}) {
    const RgbImage result = resize_bilinear(grey, width, height);
    EXPECT_EQ(result.width, width);
    EXPECT_EQ(result.bytes, std::vector<uint8_t>(size_t{3} * width * height, 201));
  }
}

TEST(ResizeBilinear, DoublingWeighsNeighboursByThreeToOne) {
  RgbImage image(2, 1);
  image.bytes = {0, 10, 200, 100, 50, 40};
  const RgbImage result = resize_bilinear(image, 4, 1);
  EXPECT_EQ(result.bytes, (std::vector<uint8_t>{0, 10, 200, 25, 20, 160, 75, 40, 80, 100, 50, 40}));
}

TEST(ResizeBilinear, AnImageOnItsSideGivesTheSamePixelsOnTheirSide) {
  const RgbImage image = noise(31, 17, 1);
  const RgbImage upright = resize_bilinear(image, 50, 9);
  const RgbImage lying = resize_bilinear(transposed(image), 9, 50, Axis::kVertical);
  EXPECT_EQ(transposed(lying).bytes, upright.bytes);
  // The order of the axes shows in the roundings, else the parameter would be in vain.
  EXPECT_NE(resize_bilinear(image, 50, 9, Axis::kVertical).bytes, upright.bytes);
}

}  // namespace
}  // namespace phidias
