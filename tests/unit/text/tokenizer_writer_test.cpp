// Tokenizers written as GGUF keys and as tokenizer.json again: the ids stay the same.
#include "text/gguf_tokenizer_writer.h"

#include "base/mapped_file.h"
#include "formats/gguf.h"
#include "text/gguf_tokenizer.h"
#include "text/hf_tokenizer_writer.h"
#include "unit/text/tokenizer_support.h"

namespace phidias::test {
namespace {

// A GGUF file without tensors that has the tokenizer of `folder` as keys alone.
Result<GgufFile> write_keys(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                            size_t rows, const std::filesystem::path& file,
                            std::vector<std::string>& notices) {
  auto json = read_text_file(folder / "tokenizer.json");
  if (!json.ok()) return json.error();
  GgufHeader header;
  header.add("general.architecture", "phi3");
  Status status = add_tokenizer_keys(header, *json, "tokenizer.json", tokenizer, rows, notices);
  if (!status.ok()) return status.error();
  auto writer = GgufWriter::create(file, header);
  if (!writer.ok()) return writer.error();
  status = writer->commit();
  if (!status.ok()) return status.error();
  return GgufFile::open(file);
}

class WrittenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    PHIDIAS_NEEDS_REFERENCE(family_folder(GetParam()));
    unpack_family(GetParam(), folder_);
    original_ = load_or_fail(folder_.path());
    ASSERT_NE(original_, nullptr);
    auto file = write_keys(folder_.path(), *original_, original_->size() + 50,
                           folder_.path() / "t.gguf", notices_);
    ASSERT_TRUE(file.ok()) << file.error().to_string();
    file_ = std::move(*file);
    auto read = tokenizer_from_gguf(file_);
    ASSERT_TRUE(read.ok()) << read.error().to_string();
    from_keys_ = std::move(*read);
  }

  void expect_same_ids(const Tokenizer& other) {
    const Json cases = family_cases(GetParam());
    ASSERT_FALSE(cases["encode"].empty());
    for (const Json& one : cases["encode"]) {
      const auto text = one["text"].get<std::string>();
      const bool special = one["add_special_tokens"].get<bool>();
      const Ids ids = encode(*original_, text, special);
      EXPECT_EQ(encode(other, text, special), ids) << one.dump();
      EXPECT_EQ(other.decode(ids, true), original_->decode(ids, true)) << one.dump();
    }
    EXPECT_EQ(other.bos(), original_->bos());
    EXPECT_EQ(other.eos(), original_->eos());
    EXPECT_EQ(other.pad(), original_->pad());
    EXPECT_EQ(other.adds_bos(), original_->adds_bos());
    EXPECT_EQ(other.stop_ids(), original_->stop_ids());
    EXPECT_EQ(other.chat_template(), original_->chat_template());
  }

  TemporaryFolder folder_;
  TokenizerPointer original_, from_keys_;
  GgufFile file_;
  std::vector<std::string> notices_;
};

TEST_P(WrittenTokenizer, KeysGiveTheSameIds) {
  expect_same_ids(*from_keys_);
  EXPECT_TRUE(notices_.empty()) << notices_.front();
}

TEST_P(WrittenTokenizer, FilesMadeFromTheKeysGiveTheSameIds) {
  const auto files = hf_tokenizer_files(file_, *from_keys_, 4096);
  ASSERT_TRUE(files.ok()) << files.error().to_string();
  const TemporaryFolder made;
  made.write("tokenizer.json", files->tokenizer_json);
  made.write("tokenizer_config.json", files->tokenizer_config_json);
  const TokenizerPointer again = load_or_fail(made.path());
  ASSERT_NE(again, nullptr);
  expect_same_ids(*again);
}

INSTANTIATE_TEST_SUITE_P(Families, WrittenTokenizer,
                         testing::Values("phi-3", "phi-4", "phi-4-mini"), [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(WrittenTokenizers, ScoresFallInTheOrderOfThePublishedConversion) {
  const auto published = reference("../data/tokenizers/phi-3-vocab.gguf");
  PHIDIAS_NEEDS_REFERENCE(published);
  const TemporaryFolder folder;
  unpack_family("phi-3", folder);
  const TokenizerPointer tokenizer = load_or_fail(folder.path());
  ASSERT_NE(tokenizer, nullptr);
  std::vector<std::string> notices;
  const auto ours = write_keys(folder.path(), *tokenizer, 32064, folder.path() / "t.gguf", notices);
  ASSERT_TRUE(ours.ok()) << ours.error().to_string();
  const auto theirs = GgufFile::open(published);
  ASSERT_TRUE(theirs.ok());
  EXPECT_EQ(**ours->optional_strings("tokenizer.ggml.tokens"),
            **theirs->optional_strings("tokenizer.ggml.tokens"));
  const auto our_scores = **ours->optional_numbers("tokenizer.ggml.scores");
  const auto their_scores = **theirs->optional_numbers("tokenizer.ggml.scores");
  // Pieces that merges make, best first; the runs of spaces share one score there.
  double before = 1;
  for (size_t id = 260; id < 29000; ++id) {
    if (their_scores[id] < -1e8) continue;
    EXPECT_LE(our_scores[id], before) << id;
    before = our_scores[id];
  }
}

TEST(WrittenTokenizers, ATokenizerWithMoreIdsThanTheEmbeddingHasRowsIsRefused) {
  const std::filesystem::path folder = data("tokenizers/byte-level");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder;
  const TokenizerPointer tokenizer = load_or_fail(folder);
  ASSERT_NE(tokenizer, nullptr);
  const TemporaryFolder target;
  std::vector<std::string> notices;
  const auto file =
      write_keys(folder, *tokenizer, tokenizer->size() - 1, target.path() / "t.gguf", notices);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace phidias::test
