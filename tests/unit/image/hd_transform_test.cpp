#include "image/hd_transform.h"

#include <gtest/gtest.h>

namespace phidias {
namespace {

constexpr uint32_t kSide = 8;

TEST(HdGeometry, CutsAsManyTilesAsFitTheShape) {
  const auto square = hd_geometry(100, 100, kSide, 4);
  ASSERT_TRUE(square.ok());
  EXPECT_EQ(square->rows, 2U);
  EXPECT_EQ(square->columns, 2U);
  const auto wide = hd_geometry(100, 10, kSide, 4);
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->rows, 1U);
  EXPECT_EQ(wide->columns, 4U);
  EXPECT_EQ(wide->resized_height, 3U);
  EXPECT_EQ(wide->padding_before, 2U);
  EXPECT_EQ(wide->padding_after, 3U);
  const auto tall = hd_geometry(10, 100, kSide, 4);
  ASSERT_TRUE(tall.ok());
  EXPECT_TRUE(tall->transposed);
  EXPECT_EQ(tall->rows, 4U);
  EXPECT_EQ(tall->columns, 1U);
}

TEST(HdGeometry, NeverCutsMoreTilesThanAllowed) {
  for (uint32_t crops = 1; crops <= 20; ++crops) {
    for (uint32_t width = 1; width < 60; ++width) {
      const auto geometry = hd_geometry(width, 40, kSide, crops);
      if (!geometry.ok()) continue;
      EXPECT_GE(geometry->tiles(), 1U);
      EXPECT_LE(geometry->tiles(), crops) << width << " x 40";
    }
  }
}

TEST(HdGeometry, AnImageOfWhichNothingWouldBeLeftIsAnError) {
  const auto geometry = hd_geometry(1, 65000, kSide, 4);
  ASSERT_FALSE(geometry.ok());
  EXPECT_EQ(geometry.error().code, Code::kInvalidArgument);
  EXPECT_NE(geometry.error().message.find("1 x 65000"), std::string::npos);
}

TEST(HdTransform, PadsWithWhiteAboveAndBelowOrLeftAndRight) {
  for (const bool tall : {false, true}) {
    const RgbImage image(tall ? 10 : 100, tall ? 100 : 10, 7);
    const auto geometry = hd_geometry(image.width, image.height, kSide, 4);
    ASSERT_TRUE(geometry.ok());
    const RgbImage result = hd_transform(image, *geometry);
    ASSERT_EQ(result.width, geometry->columns * kSide);
    ASSERT_EQ(result.height, geometry->rows * kSide);
    for (size_t y = 0; y < result.height; ++y) {
      for (size_t x = 0; x < result.width; ++x) {
        const size_t across = tall ? x : y;  // 2 white, 3 of the image, 3 white
        EXPECT_EQ(result.row(y)[3 * x], across < 2 || across >= 5 ? 255 : 7) << x << ", " << y;
      }
    }
  }
}

}  // namespace
}  // namespace phidias
