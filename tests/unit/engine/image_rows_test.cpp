#include "engine/image_rows.h"

#include <gtest/gtest.h>

#include "engine/image_cache.h"

namespace phidias {
namespace {

ImageHandle image(uint32_t tokens, const std::string& content) {
  auto features = std::make_shared<ImageFeatures>();
  features->content = content;
  features->tokens = tokens;
  features->hidden_size = 2;
  features->values.resize(size_t{2} * tokens);
  return features;
}

TEST(ImageRows, TokensOfAnImageTakeItsRowsInOrder) {
  const std::vector<ImageHandle> images{image(2, "a"), image(3, "b")};
  ImageRows rows(images, {});
  EXPECT_EQ(*rows.next(7), nullptr);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(*rows.next(-2), images[1]->row(i));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(*rows.next(-1), images[0]->row(i));
  EXPECT_EQ(*rows.next(0), nullptr);
}

TEST(ImageRows, AnImageMayStandTwiceInARow) {
  const std::vector<ImageHandle> images{image(2, "a")};
  ImageRows rows(images, {});
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(*rows.next(-1), images[0]->row(i % 2));
  EXPECT_TRUE(rows.next(3).ok());
}

TEST(ImageRows, GoesOnInTheMiddleOfAnImage) {
  const std::vector<ImageHandle> images{image(3, "a")};
  const std::vector<TokenId> before{5, -1, -1};
  ImageRows rows(images, before);
  EXPECT_EQ(*rows.next(-1), images[0]->row(2));
  EXPECT_TRUE(rows.next(5).ok());
}

TEST(ImageRows, AnIncompleteImageIsAnErrorWithBothNumbers) {
  const std::vector<ImageHandle> images{image(3, "a")};
  ImageRows rows(images, {});
  EXPECT_TRUE(rows.next(-1).ok());
  const auto next = rows.next(5);
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code, Code::kInvalidArgument);
  EXPECT_NE(next.error().message.find("image 1 has 3 tokens, but 1"), std::string::npos);
}

TEST(ImageRows, AnUnknownImageIsAnErrorHoweverLowItsId) {
  const std::vector<ImageHandle> images{image(3, "a")};
  for (const TokenId id : {-2, std::numeric_limits<TokenId>::min()}) {
    ImageRows rows(images, {});
    EXPECT_FALSE(rows.next(id).ok()) << id;
  }
}

TEST(ImageRows, ImagesAreTheSameByTheirContent) {
  const std::vector<ImageHandle> one{image(3, "a")};
  const std::vector<ImageHandle> same{image(3, "a"), image(3, "b")};
  const std::vector<ImageHandle> other{image(3, "b")};
  EXPECT_TRUE(ImageRows::same(-1, one, same));
  EXPECT_FALSE(ImageRows::same(-1, one, other));
  EXPECT_FALSE(ImageRows::same(-2, one, same));
  EXPECT_TRUE(ImageRows::same(9, one, other));
}

TEST(CheckImages, RefusesWhatIsNotWhole) {
  EXPECT_TRUE(check_images(std::vector<ImageHandle>{image(3, "a")}, 2).ok());
  EXPECT_FALSE(check_images(std::vector<ImageHandle>{image(3, "a")}, 4).ok());
  EXPECT_FALSE(check_images(std::vector<ImageHandle>{image(0, "a")}, 2).ok());
  EXPECT_FALSE(check_images(std::vector<ImageHandle>{nullptr}, 2).ok());
}

TEST(ImageCache, ForgetsWhatWasNotUsedForLongest) {
  constexpr uint64_t kBytes = 3 * 2 * sizeof(float);
  ImageCache cache(2 * kBytes);
  const ImageHandle a = image(3, "a");
  cache.insert(a);
  cache.insert(image(3, "b"));
  EXPECT_EQ(cache.find("a"), a);
  cache.insert(image(3, "c"));
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_EQ(cache.find("a"), a);
  EXPECT_NE(cache.find("c"), nullptr);
  EXPECT_EQ(cache.bytes(), 2 * kBytes);
}

TEST(ImageCache, KeepsNothingThatIsLargerThanAllOfIt) {
  ImageCache cache(10);
  cache.insert(image(3, "a"));
  EXPECT_EQ(cache.find("a"), nullptr);
  EXPECT_EQ(cache.bytes(), 0U);
}

}  // namespace
}  // namespace phidias
