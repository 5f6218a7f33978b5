#include "hub/cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace phidias::test {
namespace {

namespace fs = std::filesystem;

class HubCache : public testing::Test {
 protected:
  HubCache() { fs::remove_all(cache_); }
  ~HubCache() override { fs::remove_all(cache_); }

  // A model as other clients leave it.
  fs::path put(const std::string& name, const std::vector<std::string>& files, char commit = 'b') {
    const CachedRepository repository(cache_, name);
    const std::string sha(40, commit);
    for (const std::string& file : files) {
      const fs::path blob = repository.blob("e" + std::to_string(std::hash<std::string>()(file)));
      fs::create_directories(blob.parent_path());
      std::ofstream(blob) << file;
      EXPECT_TRUE(repository.link(sha, file, blob.filename()).ok());
    }
    EXPECT_TRUE(repository.set_ref("main", sha).ok());
    return repository.snapshot(sha);
  }

  Result<fs::path> find(const std::string& name) const {
    return find_cached_model(HubReference::parse(name).value(), cache_);
  }

  fs::path cache_ =
      fs::temp_directory_path() / ("phidias_cache_" + std::to_string(::getpid()) + "_" +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(HubCache, FindsAFolderByItsFullName) {
  const fs::path snapshot =
      put("microsoft/Phi-4-mini-instruct", {"config.json", "model.safetensors"});
  const auto found = find("microsoft/Phi-4-mini-instruct");
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(*found, snapshot);
}

TEST_F(HubCache, TheOwnerAndTheCaseOfLettersMayBeLeftOut) {
  const fs::path snapshot =
      put("microsoft/Phi-4-mini-instruct", {"config.json", "model.safetensors"});
  const auto found = find("phi-4-mini-instruct");
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(*found, snapshot);
}

TEST_F(HubCache, TwoOwnersOfOneNameMustBeToldApart) {
  put("a/model", {"config.json", "model.safetensors"});
  put("b/model", {"config.json", "model.safetensors"});
  const auto found = find("model");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Code::kInvalidArgument);
  EXPECT_NE(found.error().message.find("a/model, b/model"), std::string::npos);
  EXPECT_TRUE(find("b/model").ok());
}

TEST_F(HubCache, FindsAGgufFileAloneOrBySelector) {
  const fs::path one = put("a/one", {"README.md", "m-q4.gguf"});
  const auto alone = find("a/one");
  ASSERT_TRUE(alone.ok()) << alone.error().to_string();
  EXPECT_EQ(*alone, one / "m-q4.gguf");

  const fs::path two = put("a/two", {"m-Q4_K_M.gguf", "m-Q8_0.gguf"});
  EXPECT_EQ(find("a/two").error().code, Code::kInvalidArgument);
  const auto selected = find("two:q8_0");
  ASSERT_TRUE(selected.ok()) << selected.error().to_string();
  EXPECT_EQ(*selected, two / "m-Q8_0.gguf");
}

TEST_F(HubCache, FolderWithoutWeightsIsFound) {
  const fs::path snapshot = put("a/texts", {"config.json", "tokenizer.json"});
  const auto found = find("a/texts");
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(*found, snapshot);
}

TEST_F(HubCache, RefDecidesBetweenSnapshots) {
  put("a/model", {"config.json"}, 'c');
  const fs::path newest = put("a/model", {"config.json"}, 'd');
  EXPECT_EQ(find("a/model").value(), newest);
  ASSERT_TRUE(CachedRepository(cache_, "a/model").set_ref("main", std::string(40, 'c')).ok());
  EXPECT_EQ(find("a/model").value().filename(), std::string(40, 'c'));
}

TEST_F(HubCache, RefThatIsNoCommitLeadsNowhere) {
  put("a/model", {"config.json"});
  ASSERT_TRUE(CachedRepository(cache_, "a/model").set_ref("odd", "../../../..").ok());
  HubReference reference = HubReference::parse("a/model").value();
  reference.revision = "odd";
  EXPECT_EQ(find_cached_model(reference, cache_).error().code, Code::kNotFound);
  reference.revision = "../refs/main";
  EXPECT_EQ(find_cached_model(reference, cache_).error().code, Code::kNotFound);
}

TEST_F(HubCache, LinkWithoutItsBlobDoesNotCount) {
  const fs::path snapshot = put("a/model", {"m.gguf"});
  fs::remove(fs::weakly_canonical(snapshot / "m.gguf"));
  EXPECT_EQ(find("a/model").error().code, Code::kNotFound);
}

TEST_F(HubCache, MisspeltNameGivesFiveNearestNamesAtMostInOneLine) {
  for (int i = 0; i < 30; ++i) put("owner/phi-mini-" + std::to_string(i), {"config.json"});
  put("other/llama", {"config.json"});
  const auto found = find("owner/phi-mni-1");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Code::kNotFound);
  const std::string text = found.error().to_string();
  EXPECT_NE(text.find("did you mean owner/phi-mini-1, "), std::string::npos) << text;
  EXPECT_EQ(text.find("llama"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0) << text;
  const std::string suggestion = "owner/phi-mini-";
  size_t names = 0;
  for (size_t at = text.find(suggestion); at != std::string::npos;
       at = text.find(suggestion, at + 1))
    ++names;
  EXPECT_EQ(names, 5U) << text;
}

TEST_F(HubCache, MissingCacheHoldsNoModels) {
  EXPECT_TRUE(cached_models(cache_).empty());
  const auto found = find("a/model");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("phidias pull a/model"), std::string::npos);
}

TEST_F(HubCache, ModelsAreListedByName) {
  put("b/two", {"config.json"});
  put("a/one", {"config.json"});
  fs::create_directories(cache_ / "datasets--a--b");
  EXPECT_EQ(cached_models(cache_), (std::vector<std::string>{"a/one", "b/two"}));
}

}  // namespace
}  // namespace phidias::test
