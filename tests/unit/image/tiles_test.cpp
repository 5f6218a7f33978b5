#include "image/tiles.h"

#include <gtest/gtest.h>

namespace phidias {
namespace {

constexpr ChannelStatistics kUnit{.mean = {0, 0, 0}, .deviation = {1, 1, 1}};

// Two columns of tiles and three rows, side 2; the red byte is 10 y + x, the green one 1, blue 0.
RgbImage ramp() {
  RgbImage image(4, 6);
  for (size_t y = 0; y < 6; ++y) {
    for (size_t x = 0; x < 4; ++x) {
      image.row(y)[3 * x] = static_cast<uint8_t>(10 * y + x);
      image.row(y)[3 * x + 1] = 1;
    }
  }
  return image;
}

TEST(MakeTiles, CutsTheImageRowByRow) {
  const ImageTiles tiles = make_tiles(ramp(), 2, kUnit);
  ASSERT_EQ(tiles.count(), 7U);
  const auto fourth = tiles.tile(4);  // second row of tiles, second column
  EXPECT_EQ(fourth[0], 22 / 255.0F);
  EXPECT_EQ(fourth[1], 23 / 255.0F);
  EXPECT_EQ(fourth[2], 32 / 255.0F);
  EXPECT_EQ(fourth[4], 1 / 255.0F);
  EXPECT_EQ(fourth[8], 0.0F);
}

TEST(MakeTiles, NormalisesEachChannel) {
  const ImageTiles tiles =
      make_tiles(ramp(), 2, {.mean = {0.5F, 0.25F, 0.125F}, .deviation = {0.5F, 2, 4}});
  EXPECT_EQ(tiles.tile(1)[0], -1.0F);
  EXPECT_EQ(tiles.tile(1)[4], (1 / 255.0F - 0.25F) / 2);
  EXPECT_EQ(tiles.tile(1)[8], -0.125F / 4);
}

TEST(MakeTiles, ShrinksByTheMiddlePixelOrTheFourAroundIt) {
  const ImageTiles tiles = make_tiles(ramp(), 2, kUnit);
  // Rows by 3: the middle ones, 1 and 4. Columns by 2: -3/32, 19/32, 19/32, -3/32 of columns -1 to
  // 2 and 1 to 4, those outside repeated.
  const auto shrunk = [](float row, float a, float b, float c, float d) {
    return (-3 * a + 19 * b + 19 * c - 3 * d + 32 * row) / 32 / 255;
  };
  EXPECT_NEAR(tiles.tile(0)[0], shrunk(10, 0, 0, 1, 2), 1e-7);
  EXPECT_NEAR(tiles.tile(0)[1], shrunk(10, 1, 2, 3, 3), 1e-7);
  EXPECT_NEAR(tiles.tile(0)[2], shrunk(40, 0, 0, 1, 2), 1e-7);
}

}  // namespace
}  // namespace phidias
