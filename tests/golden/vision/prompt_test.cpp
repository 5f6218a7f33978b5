// Prompts with image tags, with the family's real tokenizer.
#include <gtest/gtest.h>

#include "golden/vision/vision_reference.h"
#include "phidias/prompt.h"
#include "support/gunzip.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

using test::VisionReference;

class VisionPrompts : public VisionReference {
 protected:
  void SetUp() override {
    VisionReference::SetUp();
    if (IsSkipped()) return;
    const auto packed = test::reference("tokenizers/phi-3-vision");
    PHIDIAS_NEEDS_REFERENCE(packed);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      const auto plain = packed / name;
      const auto zipped = packed / (std::string(name) + ".gz");
      folder_.write(name,
                    std::filesystem::exists(plain) ? test::read_file(plain) : test::gunzip(zipped));
    }
    auto tokenizer = Tokenizer::load(folder_.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
    tokenizer_ = *tokenizer;
  }
  static std::vector<ImageHandle> images_with(const std::vector<uint32_t>& tokens) {
    std::vector<ImageHandle> images;
    for (const uint32_t count : tokens) {
      auto image = std::make_shared<ImageFeatures>();
      image->tokens = count;
      images.push_back(std::move(image));
    }
    return images;
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(VisionPrompts, TextBetweenTagsHasTheReferencesIds) {
  const Json prompts = test::read_json(test::vision_folder() / "prompts.json");
  ASSERT_FALSE(prompts["prompts"].empty());
  for (const Json& prompt : prompts["prompts"]) {
    const auto text = prompt["text"].get<std::string>();
    const auto images = images_with(prompt["num_img_tokens"].get<std::vector<uint32_t>>());
    const auto ids = encode_with_images(*tokenizer_, text, images);
    ASSERT_TRUE(ids.ok()) << text << ids.error().to_string();
    EXPECT_EQ(*ids, ids_of(prompt["ids_as_runs"])) << text;
  }
}

TEST_F(VisionPrompts, ImagesHaveTheReferencesNumberOfTokens) {
  const Json prompts = test::read_json(test::vision_folder() / "prompts.json");
  const VisionInfo& info = *model_->info().vision;
  EXPECT_EQ(info.crops, 4U);
  EXPECT_EQ(info.max_tokens, 781U);  // 1344 x 336, on its side
  for (const Json& entry : cases_["images"]) {
    const auto engine = this->engine();
    const auto image = encode_image_file(
        *engine, (test::vision_folder() / entry["file"].get<std::string>()).string());
    ASSERT_TRUE(image.ok());
    EXPECT_EQ((*image)->tokens, entry["num_img_tokens"]);
    EXPECT_EQ((*image)->width, entry["width"]);
    EXPECT_EQ((*image)->rows * (*image)->columns, entry["tiles"]);
  }
}

TEST_F(VisionPrompts, TagsAreGoneByTheirNumberAndMayRepeat) {
  const auto images = images_with({2, 3});
  const auto ids = encode_with_images(*tokenizer_, "<|image_2|><|image_1|><|image_2|>", images);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, (std::vector<TokenId>{1, -2, -2, -2, 1, -1, -1, 1, -2, -2, -2, 1}));
}

TEST_F(VisionPrompts, ATagWithoutAnImageAndAnImageWithoutATagAreErrors) {
  const auto images = images_with({2});
  for (const char* text : {"<|image_1|> <|image_2|>", "<|image_1|><|image_0|>",
                           "<|image_1|><|image_99999999999999999999|>"}) {
    const auto ids = encode_with_images(*tokenizer_, text, images);
    ASSERT_FALSE(ids.ok()) << text;
    EXPECT_EQ(ids.error().code, Code::kInvalidArgument);
  }
  const auto ids = encode_with_images(*tokenizer_, "nothing to see", images);
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.error().message.find("<|image_1|>"), std::string::npos);
}

TEST_F(VisionPrompts, WhatOnlyLooksLikeATagIsText) {
  const auto images = images_with({1});
  for (const char* text : {"<|image_|>", "<|image_1>", "<|image_x|>", "<|image_1"}) {
    const auto ids = encode_with_images(*tokenizer_, std::string(text) + "<|image_1|>", images);
    ASSERT_TRUE(ids.ok()) << text;
    EXPECT_EQ(std::count(ids->begin(), ids->end(), -1), 1) << text;
  }
}

TEST_F(VisionPrompts, AChatBeginsWithTheTokenizersOwnBeginning) {
  const auto chat_template = ChatTemplate::builtin("phi-3-vision");
  ASSERT_TRUE(chat_template.ok());
  const auto images = images_with({2});
  const auto prompt =
      chat_prompt(*tokenizer_, **chat_template,
                  {{"user", "<|image_1|>\nWhat is shown in this image?"}}, {}, false, &images);
  ASSERT_TRUE(prompt.ok()) << prompt.error().to_string();
  const Json expected = test::read_json(test::vision_folder() / "prompts.json")["prompts"][0];
  std::vector<TokenId> ids = ids_of(expected["ids_as_runs"]);
  // The same text with an image of two tokens.
  const auto first = std::find(ids.begin(), ids.end(), -1);
  ids.erase(first + 2, first + expected["num_img_tokens"][0].get<ptrdiff_t>());
  EXPECT_EQ(prompt->ids, ids);
}

}  // namespace
}  // namespace phidias
