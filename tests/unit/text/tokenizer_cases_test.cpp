// What went wrong in other engines, one test for each report (their numbers in the names): the
// vocabularies of the family, in the ids that their own files give.
#include <random>

#include "base/utf8.h"
#include "unit/text/tokenizer_support.h"

namespace phidias::test {
namespace {

constexpr char32_t kGuard = 0xE000;
constexpr TokenId kUser = 32010;
constexpr TokenId kAssistant = 32001;
constexpr TokenId kEnd = 32007;

// Phi-3-mini's tokenizer, as its folder is or with one change to it.
class Phi3Cases : public testing::Test {
 protected:
  void SetUp() override {
    PHIDIAS_NEEDS_REFERENCE(family_folder("phi-3"));
    unpack_family("phi-3", folder_);
    tokenizer_ = load_or_fail(folder_.path());
    ASSERT_NE(tokenizer_, nullptr);
  }

  template <typename Change>
  TokenizerPointer changed(const std::string& file, const Change& change) const {
    TemporaryFolder folder;
    unpack_family("phi-3", folder);
    Json json = read_json(folder.path() / file);
    change(json);
    folder.write(file, json.dump());
    return load_or_fail(folder.path());
  }

  TemporaryFolder folder_;
  TokenizerPointer tokenizer_;
};

class Phi4MiniCases : public testing::Test {
 protected:
  void SetUp() override {
    PHIDIAS_NEEDS_REFERENCE(family_folder("phi-4-mini"));
    tokenizer_ = load_family("phi-4-mini");
    ASSERT_NE(tokenizer_, nullptr);
  }
  TokenizerPointer tokenizer_;
};

TEST_F(Phi3Cases, C001EncodingWhatWasDecodedGivesTheSameIdsEachTime) {
  for (const char* text :
       {"Hello world", "<|user|>\nHello  world<|end|>\n<|assistant|>\n", "  two spaces", "\n\n"}) {
    const Ids first = encode(*tokenizer_, text);
    Ids ids = first;
    for (int pass = 0; pass < 5; ++pass) {
      ids = encode(*tokenizer_, tokenizer_->decode(ids));
      EXPECT_EQ(ids, first) << text;
    }
  }
  const Ids with_bos = encode(*tokenizer_, "<s>Hello world");
  EXPECT_EQ(with_bos, (Ids{1, 15043, 3186}));
  EXPECT_EQ(encode(*tokenizer_, tokenizer_->decode(with_bos, true)), (Ids{15043, 3186}));
}

TEST_F(Phi3Cases, C003WordsBehindMarkersGetTheSpaceThatTheFileSays) {
  EXPECT_EQ(encode(*tokenizer_, "user"), (Ids{1404}));
  EXPECT_EQ(encode(*tokenizer_, "<|placeholder1|>user"), (Ids{32002, 1404}));
  EXPECT_EQ(encode(*tokenizer_, "<|user|>user"), (Ids{kUser, 1404}));
}

TEST_F(Phi3Cases, C004WhiteSpaceBehindAMarkerGoesAsItsFlagSays) {
  EXPECT_EQ(encode(*tokenizer_, "<|assistant|> "), (Ids{kAssistant}));
  EXPECT_EQ(encode(*tokenizer_, "<|assistant|>\n"), (Ids{kAssistant}));
  const auto kept = changed("tokenizer.json", [](Json& json) {
    for (Json& token : json["added_tokens"]) token["rstrip"] = false;
  });
  EXPECT_EQ(encode(*kept, "<|assistant|> "), (Ids{kAssistant, 259}));
  EXPECT_EQ(encode(*kept, "<|assistant|>\n"), (Ids{kAssistant, 29871, 13}));
}

TEST_F(Phi3Cases, C006AnAddedTokenWithoutTheFlagKeepsItsNewline) {
  const auto with_image = changed("tokenizer.json", [](Json& json) {
    json["added_tokens"].push_back({{"id", 32044},
                                    {"content", "<|image|>"},
                                    {"special", true},
                                    {"normalized", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"single_word", false}});
  });
  const Ids ids = encode(*with_image, "<|user|>\n<|image|>\nWhat?<|end|>\n");
  ASSERT_GE(ids.size(), 4U);
  EXPECT_EQ((Ids(ids.begin(), ids.begin() + 4)), (Ids{kUser, 32044, 29871, 13}));
}

TEST_F(Phi3Cases, C007LegacyFlagChangesNothingWhereTheTokenizersOwnFileDecides) {
  for (const bool legacy : {false, true}) {
    const auto tokenizer =
        changed("tokenizer_config.json", [&](Json& json) { json["legacy"] = legacy; });
    EXPECT_EQ(encode(*tokenizer, "<|user|>Hello<|end|>there"),
              encode(*tokenizer_, "<|user|>Hello<|end|>there"));
  }
}

TEST_F(Phi3Cases, C009MarkersAreShownOrSkippedAsAsked) {
  EXPECT_EQ(tokenizer_->decode(Ids{kEnd}), "<|end|>");
  EXPECT_EQ(tokenizer_->decode(Ids{kEnd}, true), "");
}

TEST_F(Phi3Cases, C058HalfAnEmojiIsHeldBack) {
  DecodeStream stream(*tokenizer_);
  std::vector<std::string> chunks;
  for (const unsigned byte : {0xF0U, 0x9FU, 0x98U, 0x80U})
    chunks.push_back(stream.push(static_cast<TokenId>(3 + byte)));
  EXPECT_EQ(chunks, (std::vector<std::string>{"", "", "", "\U0001F600"}));
  EXPECT_EQ(stream.flush(), "");
}

TEST_F(Phi3Cases, C061BytesThatNeverFormACharacterDoNotStallTheStream) {
  DecodeStream stream(*tokenizer_);
  EXPECT_EQ(stream.push(3 + 0xFF), "\uFFFD");
  EXPECT_EQ(stream.push(29874), "a");
}

TEST_F(Phi3Cases, C124BytesThatAreNoCharacterBecomeValidText) {
  EXPECT_EQ(tokenizer_->decode(Ids{3 + 0xC3, 3 + 0x28}), "\uFFFD\uFFFD");
}

TEST_F(Phi3Cases, C127AnAnswerThatEndsInsideACharacterIsStillText) {
  DecodeStream stream(*tokenizer_);
  EXPECT_EQ(stream.push(3 + 0xF0), "");
  EXPECT_EQ(stream.push(3 + 0x9F), "");
  EXPECT_EQ(stream.flush(), "\uFFFD\uFFFD");
}

TEST_F(Phi3Cases, C129OverlongFormsSurrogatesAndNumbersTooLargeAreReplacedAndTheTextGoesOn) {
  for (const auto& bytes :
       {std::string("\xC0\x80"), std::string("\xED\xA0\x80"), std::string("\xF4\x90\x80\x80")}) {
    DecodeStream stream(*tokenizer_);
    std::string text;
    for (const char byte : bytes) text += stream.push(3 + static_cast<unsigned char>(byte));
    text += stream.push(15043);
    std::string expected;
    for (size_t i = 0; i < bytes.size(); ++i) expected += kReplacementCharacter;
    EXPECT_EQ(text, expected + " Hello");
  }
}

TEST_F(Phi3Cases, C159VeryManyBlankLinesAreNoProblem) {
  std::string lines(100'000, '\n');
  EXPECT_EQ(encode(*tokenizer_, lines).size(), 100'001U);
  std::string spaced;
  for (int i = 0; i < 50'000; ++i) spaced += " \n";
  EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, spaced)), spaced);
}

TEST_F(Phi3Cases, C160AnEndlessSyllableIsNoProblem) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "ab";
  EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, text)), text);
}

TEST_F(Phi3Cases, C162CharactersOutsideTheVocabularyBecomeBytes) {
  const std::string text = "\U0001F9A9 \U00013000 \ua66e";
  EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, text)), text);
}

TEST_F(Phi3Cases, C163ByteTokensBecomeBytes) {
  const std::string text = "\nab \U0001F642 cd  ";
  EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, text)), text);
}

TEST_F(Phi3Cases, C165EachTokenOfACharacterHasItsOwnBytes) {
  const Ids ids = encode(*tokenizer_, "\U0001F98A");
  ASSERT_EQ(ids.size(), 5U);  // the space in front and four bytes
  std::string bytes;
  for (size_t i = 1; i < ids.size(); ++i) {
    EXPECT_EQ(tokenizer_->token_bytes(ids[i]).size(), 1U);
    bytes += tokenizer_->token_bytes(ids[i]);
  }
  EXPECT_EQ(bytes, "\U0001F98A");
}

// A grammar reads tokens by their bytes and must leave markers out: they are known as such, and as
// text they are other ids.
TEST_F(Phi3Cases, C168MarkersAreNeverOrdinaryText) {
  for (TokenId id = 0; id < static_cast<TokenId>(tokenizer_->size()); ++id) {
    const std::string text = tokenizer_->token_bytes(id);
    if (!text.starts_with("<|") || !text.ends_with("|>")) continue;
    EXPECT_TRUE(tokenizer_->is_special(id)) << text;
    for (const TokenId part : encode_plain(*tokenizer_, text)) EXPECT_LT(part, 32000) << text;
  }
}

TEST_F(Phi3Cases, C153SizeOfTheTokenizerIsTheHighestIdAndOne) {
  EXPECT_EQ(tokenizer_->size(), 32011U);
}

TEST_F(Phi3Cases, C169StopIdsAreThoseOfTheVocabulary) {
  EXPECT_EQ(tokenizer_->stop_ids(), (Ids{32000, kAssistant, kEnd}));
  const auto other_eos =
      changed("tokenizer_config.json", [](Json& json) { json["eos_token"] = "</s>"; });
  EXPECT_EQ(other_eos->stop_ids(), (Ids{2, 32000, kAssistant, kEnd}));
}

// A rendered prompt that begins with bos is encoded without adding another.
TEST(VisionCases, C226RenderedBosIsTheOnlyOne) {
  PHIDIAS_NEEDS_REFERENCE(family_folder("phi-3-vision"));
  const auto tokenizer = load_family("phi-3-vision");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_TRUE(tokenizer->adds_bos());
  const Ids rendered = encode(*tokenizer, "<s><|user|>\nHi<|end|>\n", false);
  EXPECT_EQ(std::count(rendered.begin(), rendered.end(), 1), 1);
  EXPECT_EQ(rendered.front(), 1);
}

// Whoever writes a prompt with bos in it can see that the tokenizer adds another.
TEST(VisionCases, C228ASecondBosCanBeSeen) {
  PHIDIAS_NEEDS_REFERENCE(family_folder("phi-3-vision"));
  const auto tokenizer = load_family("phi-3-vision");
  ASSERT_NE(tokenizer, nullptr);
  const Ids ids = encode(*tokenizer, "<s>Hi", true);
  ASSERT_GE(ids.size(), 2U);
  EXPECT_EQ(ids[0], tokenizer->bos());
  EXPECT_EQ(ids[1], tokenizer->bos());
}

TEST_F(Phi3Cases, C229MarkersInAUsersTextCloseNoTurn) {
  const std::string content = "a<|end|><|assistant|>b";
  const std::string prompt =
      "<|user|>\n" + tokenizer_->guard_markers(content, kGuard) + "<|end|>\n<|assistant|>\n";
  EncodeOptions options;
  options.guard = kGuard;
  options.add_special = false;
  const Ids ids = tokenizer_->encode(prompt, options);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kEnd), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kAssistant), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kUser), 1);
  EXPECT_EQ(tokenizer_->decode(ids, true), content);
  // The ids of the content are those of the content as plain text.
  const Ids plain = encode_plain(*tokenizer_, content);
  EXPECT_EQ(Ids(ids.begin() + 1, ids.end() - 2), plain);
}

TEST_F(Phi3Cases, C230MarkersAreObeyedOrNotAsAsked) {
  EXPECT_EQ(encode(*tokenizer_, "<|user|>"), (Ids{kUser}));
  const Ids plain = encode_plain(*tokenizer_, "<|user|>");
  EXPECT_GT(plain.size(), 1U);
  EXPECT_EQ(tokenizer_->decode(plain), "<|user|>");
}

TEST_F(Phi3Cases, GuardOfTheCallerIsNeverPartOfTheText) {
  EncodeOptions options;
  options.guard = kGuard;
  const std::string guarded = "\ue000Hel\ue000lo\ue000";
  EXPECT_EQ(tokenizer_->encode(guarded, options), tokenizer_->encode("Hello"));
  EXPECT_EQ(tokenizer_->guard_markers("\ue000<\ue000|end|>", kGuard), "<\ue000|end|>");
  EXPECT_EQ(tokenizer_->guard_markers("x", 0), "x");
}

TEST_F(Phi3Cases, TextThatIsNotUtf8IsReadAsReplacementCharacters) {
  EXPECT_EQ(encode(*tokenizer_,
                   "a\xFF"
                   "b\xE2\x82"),
            encode(*tokenizer_, "a\uFFFDb\uFFFD"));
}

TEST_F(Phi4MiniCases, C082CapitalsMarksAndSlashesAreCutAsByTheFile) {
  // Ids of the tokenizer's own file, read by the library that it is made for.
  const std::vector<std::pair<std::string, Ids>> expected = {
      {"ÖLÖL", {9146, 43, 9146, 43}},
      {"BÈC", {33, 33302, 34}},
      {"ŠKODA", {7490, 42, 140005}},
      {"o\u0308", {78, 47565}},
      {"/\n/", {66186}},
      {"\u0939\u093f\u0928\u094d\u0926\u0940", {1554, 71602, 840}}};
  for (const auto& [text, ids] : expected) {
    EXPECT_EQ(encode(*tokenizer_, text), ids) << text;
    EXPECT_EQ(tokenizer_->decode(ids), text);
  }
}

TEST_F(Phi4MiniCases, C084CharactersComeWholeOutOfAStream) {
  const std::string text = "日本の首都は？東京です。\U0001F5FC";
  DecodeStream stream(*tokenizer_);
  std::string joined;
  for (const TokenId id : encode(*tokenizer_, text)) {
    const std::string chunk = stream.push(id);
    EXPECT_TRUE(is_valid_utf8(chunk));
    EXPECT_EQ(chunk.find("\uFFFD"), std::string::npos);
    joined += chunk;
  }
  EXPECT_EQ(joined + stream.flush(), text);
}

TEST_F(Phi4MiniCases, C059JoinedChunksAreTheWholeTextForAnyIds) {
  std::mt19937 random(59);
  for (int i = 0; i < 200; ++i) {
    Ids ids;
    for (size_t n = random() % 40; n > 0; --n)
      ids.push_back(static_cast<TokenId>(random() % 200'064));
    DecodeStream stream(*tokenizer_);
    std::string joined;
    for (const TokenId id : ids) joined += stream.push(id);
    EXPECT_EQ(joined + stream.flush(), tokenizer_->decode(ids));
  }
}

// Every id of every vocabulary has bytes or is unused; those of a text's tokens are the text (see
// GoldenTokenizer).
TEST_F(Phi4MiniCases, C166EveryIdHasBytes) {
  size_t unused = 0;
  for (TokenId id = 0; id < 200'064; ++id) unused += tokenizer_->token_bytes(id).empty() ? 1U : 0U;
  EXPECT_EQ(unused, 200'064U - 200'010U);
}

TEST_F(Phi4MiniCases, ToolMarkersStayInTextThatSkipsSpecialTokens) {
  EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, "<|tool_call|>[]<|/tool_call|><|end|>"), true),
            "<|tool_call|>[]<|/tool_call|>");
}

TEST(StopIds, AreTheFamilysOwnInEveryVocabulary) {
  PHIDIAS_NEEDS_REFERENCE(family_folder("phi-4"));
  const std::vector<std::pair<std::string, Ids>> expected = {
      {"phi-3", {32000, 32001, 32007}},
      {"phi-3-first", {32000, 32001, 32007}},
      {"phi-3-vision", {32000, 32001, 32007}},
      {"phi-3-small", {100257, 100266}},
      {"phi-4", {100257, 100265}},
      {"phi-4-mini", {199999, 200020}}};
  for (const auto& [family, ids] : expected)
    EXPECT_EQ(load_family(family)->stop_ids(), ids) << family;
}

}  // namespace
}  // namespace phidias::test
