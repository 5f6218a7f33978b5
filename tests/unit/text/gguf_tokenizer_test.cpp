#include "text/gguf_tokenizer.h"

#include <limits>

#include "base/try.h"
#include "formats/gguf_writer.h"
#include "unit/text/tokenizer_support.h"

namespace phidias::test {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kUnused = 5;
constexpr int32_t kByte = 6;

// The metadata of a file, as a test writes it down.
struct Metadata {
  std::string architecture = "phi3";
  std::string model = "llama";
  std::optional<std::string> pre;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::optional<bool> add_bos;
  std::optional<bool> add_space_prefix;
  std::optional<std::string> chat_template;
  std::vector<std::pair<std::string, uint32_t>> ids;

  TokenId add(const std::string& text, int32_t type, float score = 0) {
    tokens.push_back(text);
    types.push_back(type);
    scores.push_back(score);
    return static_cast<TokenId>(tokens.size() - 1);
  }

  Result<std::shared_ptr<const Tokenizer>> load() const {
    GgufHeader header;
    header.add("general.architecture", architecture);
    if (!model.empty()) header.add("tokenizer.ggml.model", model);
    if (pre) header.add("tokenizer.ggml.pre", *pre);
    header.add_array("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
    if (!types.empty())
      header.add_array("tokenizer.ggml.token_type", std::span<const int32_t>(types));
    if (!scores.empty()) header.add_array("tokenizer.ggml.scores", std::span<const float>(scores));
    if (!merges.empty())
      header.add_array("tokenizer.ggml.merges", std::span<const std::string>(merges));
    if (add_bos) header.add("tokenizer.ggml.add_bos_token", *add_bos);
    if (add_space_prefix) header.add("tokenizer.ggml.add_space_prefix", *add_space_prefix);
    if (chat_template) header.add("tokenizer.chat_template", *chat_template);
    for (const auto& [key, id] : ids) header.add("tokenizer.ggml." + key, id);
    const auto bytes = header.bytes();
    PHIDIAS_TRY(const GgufFile file, GgufFile::parse(bytes, "test.gguf"));
    return tokenizer_from_gguf(file);
  }

  TokenizerPointer load_or_fail() const {
    auto loaded = load();
    if (!loaded.ok()) {
      ADD_FAILURE() << loaded.error().to_string();
      return nullptr;
    }
    return *loaded;
  }
};

// <unk> 0, <s> 1, </s> 2, bytes 3..258, then a few pieces and markers.
Metadata sentencepiece() {
  Metadata metadata;
  metadata.add("<unk>", kUnknown);
  metadata.add("<s>", kControl);
  metadata.add("</s>", kUserDefined);
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    metadata.add(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">", kByte);
  }
  metadata.add("\u2581", kNormal, -3);      // 259
  metadata.add("a", kNormal, -4);           // 260
  metadata.add("b", kNormal, -5);           // 261
  metadata.add("\u2581a", kNormal, -1);     // 262
  metadata.add("ab", kNormal, -2);          // 263
  metadata.add("<|end|>", kControl);        // 264
  metadata.add("<|endoftext|>", kControl);  // 265
  metadata.add("[PAD266]", kUnknown);       // 266
  metadata.add("[PAD267]", kUnused);        // 267
  metadata.ids = {{"bos_token_id", 1}, {"eos_token_id", 265}, {"unknown_token_id", 0}};
  return metadata;
}

Metadata byte_level(const std::string& pre) {
  Metadata metadata;
  metadata.model = "gpt2";
  metadata.pre = pre;
  metadata.scores.clear();
  for (const char* token : {"a", "b", "ab", "\u0120", "\u010a", "1", "2", "12", "\u0120a"})
    metadata.add(token, kNormal);
  metadata.add("<|x|>", kControl);
  metadata.scores.clear();
  metadata.merges = {"a b", "1 2", "\u0120 a"};
  return metadata;
}

TEST(GgufTokenizer, PiecesMergeByScore) {
  const auto tokenizer = sentencepiece().load_or_fail();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{262, 261}));  // the mark and a go first
  EXPECT_EQ(encode(*tokenizer, "b ab"), (Ids{259, 261, 262, 261}));
  EXPECT_EQ(encode(*tokenizer, "\n"), (Ids{259, 3 + '\n'}));
  EXPECT_EQ(tokenizer->decode(Ids{262, 261, 3 + '\n'}), "ab\n");
}

TEST(GgufTokenizer, PaddingAndUnusedEntriesAreNoTokens) {
  const auto tokenizer = sentencepiece().load_or_fail();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->decode(Ids{266, 267, 260}), "a");
  EXPECT_EQ(tokenizer->find("[PAD266]"), std::nullopt);
  EXPECT_EQ(tokenizer->find("[PAD267]"), std::nullopt);
}

TEST(GgufTokenizer, MarkersOfPhi3SwallowWhatFollowsUnlessTheTemplateIsTheFirstRevisions) {
  Metadata metadata = sentencepiece();
  EXPECT_EQ(encode(*metadata.load_or_fail(), "<|end|>\n a"), (Ids{264, 262}));
  EXPECT_EQ(encode(*metadata.load_or_fail(), "<|endoftext|> a"), (Ids{265, 259, 262}));
  EXPECT_EQ(metadata.load_or_fail()->decode(Ids{2}, true), "</s>");
  metadata.chat_template = "{{ bos_token }}{% for message in messages %}{% endfor %}";
  EXPECT_EQ(encode(*metadata.load_or_fail(), "<|end|> a"), (Ids{264, 259, 262}));
  EXPECT_EQ(metadata.load_or_fail()->decode(Ids{2}, true), "");
  metadata.chat_template = "{% for message in messages %}{{ bos_token }}{% endfor %}";
  EXPECT_EQ(encode(*metadata.load_or_fail(), "<|end|> a"), (Ids{264, 262}));
  metadata.architecture = "llama";
  EXPECT_EQ(encode(*metadata.load_or_fail(), "<|end|> a"), (Ids{264, 259, 262}));
}

TEST(GgufTokenizer, BosIsAddedAsTheFileSaysAndForPhi3NotWhereItDoesNotSay) {
  Metadata metadata = sentencepiece();
  EXPECT_FALSE(metadata.load_or_fail()->adds_bos());
  metadata.architecture = "llama";
  EXPECT_TRUE(metadata.load_or_fail()->adds_bos());
  EXPECT_EQ(encode(*metadata.load_or_fail(), "a", true), (Ids{1, 262}));
  metadata.add_bos = false;
  EXPECT_FALSE(metadata.load_or_fail()->adds_bos());
  metadata.architecture = "phi3";
  metadata.add_bos = true;
  EXPECT_TRUE(metadata.load_or_fail()->adds_bos());
}

TEST(GgufTokenizer, SpaceInFrontIsAddedUnlessTheFileSaysNo) {
  Metadata metadata = sentencepiece();
  EXPECT_EQ(encode(*metadata.load_or_fail(), "ab<|end|>b"), (Ids{262, 261, 264, 259, 261}));
  metadata.add_space_prefix = false;
  const auto tokenizer = metadata.load_or_fail();
  EXPECT_EQ(encode(*tokenizer, "ab<|end|>b"), (Ids{263, 264, 261}));
  EXPECT_EQ(tokenizer->decode(Ids{262}), " a");
}

// Pre-tokenizers of the family's files are known, others refused by name, not guessed.
TEST(GgufTokenizer, C043PreTokenizersAreKnownByNameOrRefusedByName) {
  for (const char* name : {"gpt-2", "smollm", "dbrx", "gpt-4o", "llama-bpe", "default"}) {
    EXPECT_TRUE(byte_level(name).load().ok()) << name;
  }
  EXPECT_TRUE(sentencepiece().load().ok());
  const auto refused = byte_level("nonesuch").load();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("nonesuch"), std::string::npos);
  EXPECT_NE(refused.error().message.find("gpt-4o"), std::string::npos);
}

TEST(GgufTokenizer, PreTokenizersCutNumbersInTheirOwnWays) {
  EXPECT_EQ(encode(*byte_level("smollm").load_or_fail(), "12"), (Ids{5, 6}));
  EXPECT_EQ(encode(*byte_level("dbrx").load_or_fail(), "12"), (Ids{7}));
  EXPECT_EQ(encode(*byte_level("gpt-4o").load_or_fail(), "ab 12a"), (Ids{2, 3, 7, 0}));
}

TEST(GgufTokenizer, WordsThatAreTokensGoBeforeMergesInLlamasVocabulary) {
  Metadata metadata = byte_level("llama-bpe");
  metadata.merges = {"1 2"};
  EXPECT_EQ(encode(*metadata.load_or_fail(), "ab"), (Ids{2}));
  metadata.pre = "dbrx";
  EXPECT_EQ(encode(*metadata.load_or_fail(), "ab"), (Ids{0, 1}));
}

TEST(GgufTokenizer, FileWithoutATokenizerIsNotFound) {
  for (const char* model : {"", "no_vocab", "none"}) {
    Metadata metadata = byte_level("gpt-2");
    metadata.model = model;
    const auto loaded = metadata.load();
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, Code::kNotFound);
    EXPECT_NE(loaded.error().message.find("no tokenizer"), std::string::npos);
  }
  Metadata metadata = byte_level("gpt-2");
  metadata.model = "bert";
  EXPECT_EQ(metadata.load().error().code, Code::kUnsupported);
}

TEST(GgufTokenizer, MetadataThatContradictItselfIsRefusedWithItsKey) {
  const auto refused = [](const Metadata& metadata, const std::string& key) {
    const auto loaded = metadata.load();
    ASSERT_FALSE(loaded.ok()) << key;
    EXPECT_EQ(loaded.error().code, Code::kCorrupt) << loaded.error().to_string();
    EXPECT_EQ(loaded.error().place.item, key);
    EXPECT_EQ(loaded.error().place.file, "test.gguf");
  };
  Metadata metadata = sentencepiece();
  metadata.types.pop_back();
  refused(metadata, "tokenizer.ggml.token_type");
  metadata = sentencepiece();
  metadata.scores.pop_back();
  refused(metadata, "tokenizer.ggml.scores");
  metadata = sentencepiece();
  metadata.scores[260] = std::numeric_limits<float>::quiet_NaN();
  refused(metadata, "tokenizer.ggml.scores");
  metadata = sentencepiece();
  metadata.tokens[261] = "a";
  refused(metadata, "tokenizer.ggml.tokens");
  metadata = sentencepiece();
  metadata.tokens[261] = "\xFF";
  refused(metadata, "tokenizer.ggml.tokens");
  metadata = sentencepiece();
  metadata.ids = {{"eos_token_id", 100'000}};
  refused(metadata, "tokenizer.ggml.eos_token_id");
  metadata = byte_level("gpt-2");
  metadata.merges = {"ab"};
  refused(metadata, "tokenizer.ggml.merges");
  metadata = byte_level("gpt-2");
  metadata.merges = {"a x"};
  refused(metadata, "tokenizer.ggml.merges");
  metadata = byte_level("gpt-2");
  metadata.merges.clear();
  refused(metadata, "tokenizer.ggml.merges");
  metadata = sentencepiece();
  metadata.types[260] = 9;
  EXPECT_EQ(metadata.load().error().code, Code::kUnsupported);
}

// The marker that ends a turn is known by its text, whatever its type in the file.
TEST(GgufTokenizer, C251EndOfTurnThatIsNotAControlTokenStopsAnswers) {
  Metadata metadata = sentencepiece();
  metadata.types[264] = kUserDefined;
  EXPECT_EQ(metadata.load_or_fail()->stop_ids(), (Ids{264, 265}));
}

TEST(GgufTokenizer, EndOfTurnOfTheFileIsAStopId) {
  Metadata metadata = sentencepiece();
  metadata.ids.emplace_back("eot_token_id", 261);
  EXPECT_EQ(metadata.load_or_fail()->stop_ids(), (Ids{261, 264, 265}));
}

TEST(GgufTokenizer, SmallReferenceFilesGiveTheirReferenceIds) {
  const auto cases_file = reference("gguf/phi3-tiny-tokenizer.json");
  PHIDIAS_NEEDS_REFERENCE(cases_file);
  const Json cases = read_json(cases_file);
  for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "longrope"}) {
    const auto tokenizer =
        test::load_or_fail(reference(std::string("gguf/phi3-tiny-") + name + ".gguf"));
    ASSERT_NE(tokenizer, nullptr);
    for (const Json& one : cases["plain"]) {
      const auto ids = encode(*tokenizer, one["text"].get<std::string>(), true);
      EXPECT_EQ(ids, one["ids"].get<Ids>()) << one.dump();
      EXPECT_EQ(tokenizer->decode(ids), one["decoded"].get<std::string>()) << one.dump();
    }
    for (const Json& one : cases["chat"]) {
      EXPECT_EQ(encode(*tokenizer, one["rendered"].get<std::string>()), one["ids"].get<Ids>())
          << one.dump();
    }
    EXPECT_EQ(tokenizer->stop_ids(), (Ids{310, 313}));
  }
}

// The two files of a family say the same, apart from their layout.
TEST(GgufTokenizer, AgreesWithTheFolderOfItsFamily) {
  PHIDIAS_NEEDS_REFERENCE(family_folder("phi-4-mini"));
  for (const char* family : {"phi-4", "phi-4-mini"}) {
    const auto folder = load_family(family);
    const auto file = load_packed_gguf(family_folder(family) / "vocab.gguf.gz");
    ASSERT_TRUE(folder != nullptr && file != nullptr);
    EXPECT_EQ(folder->eos(), file->eos());
    EXPECT_EQ(folder->bos(), file->bos());
    EXPECT_EQ(folder->stop_ids(), file->stop_ids());
    EXPECT_EQ(folder->adds_bos(), file->adds_bos());
    for (TokenId id = 0; id < static_cast<TokenId>(folder->size()); ++id) {
      ASSERT_EQ(folder->is_special(id), file->is_special(id)) << family << " " << id;
      ASSERT_EQ(folder->token_bytes(id), file->token_bytes(id)) << family << " " << id;
    }
  }
}

}  // namespace
}  // namespace phidias::test
