#include "hub/reference.h"

#include <gtest/gtest.h>

namespace phidias::test {
namespace {

std::vector<std::string> chosen(const std::vector<std::string>& listing,
                                const std::string& name = "o/m") {
  const auto files = choose_files(listing, HubReference::parse(name).value());
  return files.ok() ? *files : std::vector<std::string>{"error: " + files.error().message};
}

TEST(HubReference, ReadsNameAndSelector) {
  const auto plain = HubReference::parse("microsoft/Phi-4-mini-instruct");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->repository, "microsoft/Phi-4-mini-instruct");
  EXPECT_TRUE(plain->selector.empty());
  EXPECT_EQ(plain->revision, "main");
  const auto selected = HubReference::parse("o/m-gguf:Q4_K_M");
  ASSERT_TRUE(selected.ok());
  EXPECT_EQ(selected->repository, "o/m-gguf");
  EXPECT_EQ(selected->selector, "Q4_K_M");
}

TEST(HubReference, RefusesWhatCannotBeAName) {
  for (const char* text : {"", "/", "a/", "/b", "a/b/c", "../b", "a/..", "a b/c", "a/b?x", "a/b%2F",
                           "a--b/c", "a/b:", "a/b:../x", "a/b:/etc/passwd", "http://a/b"}) {
    const auto reference = HubReference::parse(text);
    EXPECT_FALSE(reference.ok()) << text;
  }
}

TEST(ChooseFiles, TakesConfigsAndWeightsOfAFolder) {
  EXPECT_EQ(
      chosen({"LICENSE", "config.json", "model-00001-of-00002.safetensors",
              "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.model",
              "chat_template.jinja", "consolidated.safetensors", "onnx/config.json",
              "pytorch_model.bin", "sample.png"}),
      (std::vector<std::string>{"config.json", "model.safetensors.index.json", "tokenizer.model",
                                "chat_template.jinja", "model-00001-of-00002.safetensors",
                                "model-00002-of-00002.safetensors"}));
}

TEST(ChooseFiles, TakesTheOnlyGguf) {
  EXPECT_EQ(chosen({"README.md", "m.gguf"}), std::vector<std::string>{"m.gguf"});
}

TEST(ChooseFiles, AsksWhichOfSeveralGgufs) {
  const auto files = choose_files(std::vector<std::string>{"a-q4.gguf", "a-q8.gguf"},
                                  HubReference::parse("o/m").value());
  ASSERT_FALSE(files.ok());
  EXPECT_EQ(files.error().code, Code::kInvalidArgument);
  EXPECT_NE(files.error().message.find("a-q4.gguf, a-q8.gguf"), std::string::npos);
}

TEST(ChooseFiles, SelectorIsAWholeWordFirst) {
  const std::vector<std::string> listing{"m-Q4_K_M.gguf", "m-Q4_K.gguf", "m-Q5_K_M.gguf"};
  EXPECT_EQ(chosen(listing, "o/m:q4_k"), std::vector<std::string>{"m-Q4_K.gguf"});
  EXPECT_EQ(chosen(listing, "o/m:Q5"), std::vector<std::string>{"m-Q5_K_M.gguf"});
  EXPECT_TRUE(chosen(listing, "o/m:k_m").front().starts_with("error: several files match"));
  EXPECT_TRUE(chosen(listing, "o/m:Q8_0").front().starts_with("error: no file matches"));
}

TEST(ChooseFiles, SelectorMayBeAFilesPath) {
  EXPECT_EQ(chosen({"a/m.gguf", "b/m.gguf"}, "o/m:b/m.gguf"), std::vector<std::string>{"b/m.gguf"});
}

TEST(ChooseFiles, OtherFormatsAreNamedAsUnreadable) {
  EXPECT_TRUE(
      chosen({"config.json", "pytorch_model.bin"}).front().starts_with("error: holds neither"));
}

TEST(ChooseFiles, LongListsAreCutInErrors) {
  std::vector<std::string> listing;
  for (int i = 0; i < 500; ++i) listing.push_back("m" + std::to_string(i) + ".gguf");
  const std::string text = chosen(listing).front();
  EXPECT_NE(text.find("and 490 more"), std::string::npos) << text;
}

}  // namespace
}  // namespace phidias::test
