// Folders: what belongs to which file, what is refused by name, and files that lie.
#include "text/hf_tokenizer.h"

#include "unit/text/tokenizer_support.h"

namespace phidias::test {
namespace {

// A byte-level tokenizer of the letters a, b and the token ab; tests change parts of it.
Json small_tokenizer() {
  return *parse_json(R"({
    "added_tokens": [{"id": 3, "content": "<m>", "special": true, "normalized": false, "rstrip": true}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
}

Result<TokenizerImpl> parse(const Json& json) {
  return parse_tokenizer_json(json.dump(), "tokenizer.json");
}

// Expects a refusal that names `named` and the JSON path.
void expect_refused(const Json& json, Code code, const std::string& named,
                    const std::string& path) {
  const auto parsed = parse(json);
  ASSERT_FALSE(parsed.ok()) << json.dump();
  EXPECT_EQ(parsed.error().code, code) << parsed.error().to_string();
  EXPECT_NE(parsed.error().message.find(named), std::string::npos) << parsed.error().to_string();
  EXPECT_EQ(parsed.error().place.file, "tokenizer.json");
  EXPECT_EQ(parsed.error().place.item, path);
}

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override { write("tokenizer.json", small_tokenizer()); }
  void write(const std::string& name, const Json& json) const { folder_.write(name, json.dump()); }
  TokenizerPointer load() const { return load_or_fail(folder_.path()); }
  Error load_error() const {
    auto loaded = Tokenizer::load(folder_.path());
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? Error{} : std::move(loaded).error();
  }

  TemporaryFolder folder_;
};

TEST(TokenizerJson, BothSpellingsOfMergesAreRead) {
  Json json = small_tokenizer();
  for (const char* merges : {R"(["a b"])", R"([["a", "b"]])"}) {
    json["model"]["merges"] = *parse_json(merges);
    auto parts = parse(json);
    ASSERT_TRUE(parts.ok()) << parts.error().to_string();
    EXPECT_EQ(encode(*make_tokenizer(std::move(*parts)), "abba"), (Ids{2, 1, 0}));
  }
}

TEST(TokenizerJson, PartsThatAreNotReadAreRefusedByName) {
  const auto with = [](const char* key, const char* value) {
    Json json = small_tokenizer();
    json[Json::json_pointer(key)] = *parse_json(value);
    return json;
  };
  expect_refused(with("/model/type", R"("Unigram")"), Code::kUnsupported, "Unigram", "/model");
  expect_refused(with("/model/dropout", "0.1"), Code::kUnsupported, "dropout", "/model");
  expect_refused(with("/model/end_of_word_suffix", R"("</w>")"), Code::kUnsupported,
                 "end_of_word_suffix", "/model");
  expect_refused(with("/normalizer", R"({"type": "BertNormalizer"})"), Code::kUnsupported,
                 "BertNormalizer", "/normalizer");
  expect_refused(with("/pre_tokenizer",
                      R"({"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}]})"),
                 Code::kUnsupported, "UnicodeScripts", "/pre_tokenizer/pretokenizers/0");
  expect_refused(with("/pre_tokenizer",
                      R"({"type": "Split", "pattern": {"Regex": "\\h"}, "behavior": "Isolated"})"),
                 Code::kUnsupported, "\\h", "/pre_tokenizer/pattern");
  expect_refused(with("/decoder", R"({"type": "WordPiece"})"), Code::kUnsupported, "WordPiece",
                 "/decoder");
  expect_refused(with("/decoder", "null"), Code::kUnsupported, "decoder", "/decoder");
  expect_refused(
      with("/decoder",
           R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]})"),
      Code::kUnsupported, "ByteFallback", "/decoder/decoders/1");
  expect_refused(with("/decoder", R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})"),
                 Code::kUnsupported, "Strip", "/decoder");
  expect_refused(with("/post_processor", R"({"type": "BertProcessing"})"), Code::kUnsupported,
                 "BertProcessing", "/post_processor");
}

TEST(TokenizerJson, FilesThatContradictThemselvesAreRefused) {
  const auto with = [](const char* key, const char* value) {
    Json json = small_tokenizer();
    json[Json::json_pointer(key)] = *parse_json(value);
    return json;
  };
  expect_refused(with("/model/vocab", R"({"a": 0, "b": 0})"), Code::kCorrupt, "id 0",
                 "/model/vocab");
  expect_refused(with("/model/vocab", R"({"a": -1})"), Code::kCorrupt, "whole number",
                 "/model/vocab");
  expect_refused(with("/model/vocab", R"({"a": 4294967296})"), Code::kCorrupt, "below",
                 "/model/vocab");
  expect_refused(with("/model/vocab", R"({"a": 2147483648})"), Code::kCorrupt, "below",
                 "/model/vocab");
  expect_refused(with("/model/vocab", R"({"a": 1e3})"), Code::kCorrupt, "whole number",
                 "/model/vocab");
  expect_refused(with("/model/vocab", "[1]"), Code::kCorrupt, "object", "/model/vocab");
  expect_refused(with("/model/merges", R"(["a c"])"), Code::kCorrupt, "\"c\"", "/model/merges");
  expect_refused(with("/model/merges", R"(["ab"])"), Code::kCorrupt, "merge 0", "/model/merges");
  expect_refused(with("/model/merges", R"(["a b c"])"), Code::kCorrupt, "merge 0", "/model/merges");
  expect_refused(with("/model/merges", R"([["a"]])"), Code::kCorrupt, "merge 0", "/model/merges");
  expect_refused(with("/model/merges", "{}"), Code::kCorrupt, "list", "/model/merges");
  expect_refused(with("/added_tokens/0/id", "99999999999"), Code::kCorrupt, "below",
                 "/added_tokens/0");
  expect_refused(with("/added_tokens/0/content", "7"), Code::kCorrupt, "string",
                 "/added_tokens/0/content");
  expect_refused(with("/added_tokens/0/rstrip", "7"), Code::kCorrupt, "true or false",
                 "/added_tokens/0/rstrip");
}

TEST(TokenizerJson, TextThatIsNotJsonIsRefused) {
  for (const std::string& text :
       {std::string("{"), std::string(), std::string("[]"), std::string("\xFF"),
        std::string(100'000, '['), std::string("{\"model\":3}")}) {
    const auto parsed = parse_tokenizer_json(text, "tokenizer.json");
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().code, Code::kCorrupt);
  }
}

TEST(TokenizerJson, HalfASurrogatePairIsRefused) {
  std::string text = small_tokenizer().dump();
  text.replace(text.find("<m>"), 3, "\\udc00");
  EXPECT_FALSE(parse_tokenizer_json(text, "tokenizer.json").ok());
}

TEST(TokenizerJson, AddedTokensIdIsRightWhetherInTheVocabularyOrNot) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["<m>"] = 7;
  auto parts = parse(json);
  ASSERT_TRUE(parts.ok());
  const auto tokenizer = make_tokenizer(std::move(*parts));
  EXPECT_EQ(encode(*tokenizer, "a<m>"), (Ids{0, 3}));
  EXPECT_EQ(tokenizer->find("<m>"), 3);
}

TEST(TokenizerJson, TemplateAndByteLevelProcessorsGoTogether) {
  Json json = small_tokenizer();
  json["post_processor"] = *parse_json(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<m>"}}, {"Sequence": {"id": "A"}},
     {"SpecialToken": {"id": "end"}}],
     "special_tokens": {"<m>": {"ids": [3]}, "end": {"ids": [1, 0]}}}]})");
  auto parts = parse(json);
  ASSERT_TRUE(parts.ok()) << parts.error().to_string();
  EXPECT_EQ(encode(*make_tokenizer(std::move(*parts)), "ab", true), (Ids{3, 2, 1, 0}));
}

TEST_F(TokenizerFolder, NamedTokensComeFromTheConfigThenFromTheMap) {
  write("tokenizer_config.json", {{"eos_token", {{"content", "<m>"}}}});
  write("special_tokens_map.json",
        {{"eos_token", "a"}, {"bos_token", {{"content", "b"}}}, {"pad_token", nullptr}});
  const auto tokenizer = load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->eos(), 3);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->pad(), std::nullopt);
  using Named = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(tokenizer->template_tokens(), (Named{{"bos_token", "b"}, {"eos_token", "<m>"}}));
}

TEST_F(TokenizerFolder, AddBosTokenOfTheConfigDecides) {
  Json json = small_tokenizer();
  json["post_processor"] = *parse_json(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<m>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<m>": {"ids": [3]}}})");
  for (const bool in_file : {false, true}) {
    write("tokenizer.json", in_file ? json : small_tokenizer());
    for (const bool wanted : {false, true}) {
      write("tokenizer_config.json", {{"bos_token", "<m>"}, {"add_bos_token", wanted}});
      const auto tokenizer = load();
      ASSERT_NE(tokenizer, nullptr);
      EXPECT_EQ(encode(*tokenizer, "a", true), wanted ? (Ids{3, 0}) : (Ids{0}));
      EXPECT_EQ(tokenizer->adds_bos(), wanted);
    }
    write("tokenizer_config.json", {{"bos_token", "<m>"}});
    EXPECT_EQ(load()->adds_bos(), in_file);
  }
}

TEST_F(TokenizerFolder, AddEosTokenPutsItBehind) {
  write("tokenizer_config.json", {{"eos_token", "<m>"}, {"add_eos_token", true}});
  EXPECT_EQ(encode(*load(), "a", true), (Ids{0, 3}));
  EXPECT_EQ(encode(*load(), "a", false), (Ids{0}));
}

TEST_F(TokenizerFolder, MarkersThatOnlyTheConfigsHaveAreAdded) {
  write("tokenizer_config.json",
        {{"added_tokens_decoder",
          {{"3", {{"content", "<m>"}, {"rstrip", false}}},
           {"9", {{"content", "<n>"}, {"special", true}, {"lstrip", true}}}}}});
  write("added_tokens.json", {{"<m>", 3}, {"<o>", 10}});
  const auto tokenizer = load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(encode(*tokenizer, "a<m> b <n><o>"),
            (Ids{0, 3, 1, 9, 10}));  // <m> keeps the flags of tokenizer.json
  EXPECT_TRUE(tokenizer->is_special(9));
  EXPECT_EQ(tokenizer->size(), 11U);
}

TEST_F(TokenizerFolder, ChatTemplateIsLookedForInFourPlaces) {
  EXPECT_EQ(load()->chat_template(), std::nullopt);
  write("tokenizer_config.json", {{"chat_template", "config"}});
  EXPECT_EQ(load()->chat_template(), "config");
  write("tokenizer_config.json", {{"chat_template",
                                   {{{"name", "tools"}, {"template", "other"}},
                                    {{"name", "default"}, {"template", "listed"}}}}});
  EXPECT_EQ(load()->chat_template(), "listed");
  write("chat_template.json", {{"chat_template", "alone"}});
  EXPECT_EQ(load()->chat_template(), "alone");
  folder_.write("chat_template.jinja", "jinja\n");
  EXPECT_EQ(load()->chat_template(), "jinja\n");
}

TEST_F(TokenizerFolder, ConfigsOfTheWrongShapeAreRefusedWithTheirFile) {
  folder_.write("tokenizer_config.json", "[]");
  EXPECT_EQ(load_error().code, Code::kCorrupt);
  EXPECT_NE(load_error().place.file.find("tokenizer_config.json"), std::string::npos);
  write("tokenizer_config.json", {{"chat_template", 7}});
  EXPECT_EQ(load_error().place.item, "/chat_template");
  write("tokenizer_config.json", {{"add_bos_token", "yes"}});
  EXPECT_EQ(load_error().place.item, "/add_bos_token");
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"x", {{"content", "<n>"}}}}}});
  EXPECT_EQ(load_error().place.item, "/added_tokens_decoder/x");
}

TEST(TokenizerLoad, FolderWithoutATokenizerSaysWhatIsMissing) {
  const TemporaryFolder folder;
  auto loaded = Tokenizer::load(folder.path());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Code::kNotFound);
  EXPECT_NE(loaded.error().message.find("tokenizer.json"), std::string::npos);
  folder.write("tokenizer.model", "x");
  EXPECT_NE(Tokenizer::load(folder.path()).error().message.find("tokenizer.model"),
            std::string::npos);
}

TEST(TokenizerLoad, RanksOfTiktokenGiveTheIdsOfTheConvertedFile) {
  const auto ranks = reference("../data/tokenizers/cl100k_base.tiktoken");
  PHIDIAS_NEEDS_REFERENCE(ranks);
  TemporaryFolder folder;
  std::filesystem::copy_file(ranks, folder.path() / ranks.filename());
  std::filesystem::copy_file(family_folder("phi-3-small") / "tokenizer_config.json",
                             folder.path() / "tokenizer_config.json");
  const auto tokenizer = load_or_fail(folder.path());
  ASSERT_NE(tokenizer, nullptr);
  const Json cases = family_cases("phi-3-small");
  ASSERT_FALSE(cases["encode"].empty());
  for (const Json& one : cases["encode"]) {
    if (one.value("kind", "") == "unicode-new") continue;
    const auto ids = encode(*tokenizer, one["text"].get<std::string>());
    EXPECT_EQ(ids, one["ids"].get<Ids>()) << one.dump();
    EXPECT_EQ(tokenizer->decode(ids, true), one["decoded_skip_special"].get<std::string>());
  }
  EXPECT_EQ(tokenizer->stop_ids(), (Ids{100257, 100266}));
}

TEST(TokenizerLoad, RanksOfAnotherVocabularyAreRefused) {
  const TemporaryFolder folder;
  folder.write("x.tiktoken", "YQ== 0\nYg== 1\nYWI= 2\n");
  EXPECT_EQ(Tokenizer::load(folder.path()).error().code, Code::kUnsupported);
  for (const char* broken :
       {"YQ==\n", "Y*== 0\n", "YQ== x\n", "YQ== 0\nYQ== 1\n", "YQ== 99999999999\n"}) {
    folder.write("x.tiktoken", broken);
    EXPECT_EQ(Tokenizer::load(folder.path()).error().code, Code::kCorrupt) << broken;
  }
}

}  // namespace
}  // namespace phidias::test
