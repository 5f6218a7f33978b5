#include "text/detokenizer.h"

#include <gtest/gtest.h>

namespace phidias {
namespace {

using Ids = std::vector<TokenId>;

// Ids 0..255 are the bytes, then come a few texts and two markers.
class Fixture {
 public:
  explicit Fixture(DecoderOptions options) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    for (size_t byte = 0; byte < 256; ++byte) {
      add(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
    }
    for (const char* text : {"_hello", "_", "world"}) add(text);
    AddedToken special;
    special.id = kSpecial;
    special.text = "<special>";
    special.special = true;
    AddedToken shown;
    shown.id = kShown;
    shown.text = "<shown>";
    EXPECT_TRUE(added_.add(special).ok());
    EXPECT_TRUE(added_.add(shown).ok());
    detokenizer_ = Detokenizer(options, vocabulary_, added_);
  }

  static constexpr TokenId kHello = 256;
  static constexpr TokenId kSpace = 257;
  static constexpr TokenId kWorld = 258;
  static constexpr TokenId kSpecial = 300;
  static constexpr TokenId kShown = 301;

  std::string decode(const Ids& ids, bool skip_special = false) const {
    return detokenizer_.decode(ids, skip_special);
  }
  std::vector<std::string> stream(const Ids& ids, bool skip_special = false) const {
    DecodeProgress progress;
    std::vector<std::string> chunks;
    for (const TokenId id : ids) chunks.push_back(detokenizer_.push(id, skip_special, progress));
    chunks.push_back(detokenizer_.flush(progress));
    return chunks;
  }
  const Detokenizer& operator*() const { return detokenizer_; }

 private:
  void add(const std::string& text) { EXPECT_TRUE(vocabulary_.add(text, next_++).ok()); }

  uint64_t next_ = 0;
  Vocabulary vocabulary_;
  AddedTokens added_;
  Detokenizer detokenizer_;
};

DecoderOptions llama_like() {
  DecoderOptions options;
  options.byte_tokens = true;
  options.replacements.push_back({Pattern::literal("_"), " "});
  options.strip = " ";
  options.strip_count = 1;
  return options;
}

using Chunks = std::vector<std::string>;

TEST(Detokenizer, OneLeadingSpaceIsLeftOut) {
  const Fixture fixture(llama_like());
  EXPECT_EQ(fixture.decode({Fixture::kHello, Fixture::kWorld, Fixture::kHello}),
            "helloworld hello");
  EXPECT_EQ(fixture.decode({Fixture::kSpace, Fixture::kHello}), " hello");
  EXPECT_EQ(fixture.stream({Fixture::kSpace, Fixture::kHello}), (Chunks{"", " hello", ""}));
  EXPECT_EQ(fixture.decode({Fixture::kSpecial, Fixture::kHello}), "<special> hello");
  EXPECT_EQ(fixture.decode({Fixture::kSpecial, Fixture::kHello}, true), "hello");
  EXPECT_EQ(fixture.stream({Fixture::kSpecial, Fixture::kHello}, true), (Chunks{"", "hello", ""}));
}

TEST(Detokenizer, ARunOfBytesIsOneCharacterOrOneReplacementForEach) {
  const Fixture fixture(llama_like());
  EXPECT_EQ(fixture.decode({0xF0, 0x9F, 0x98, 0x80}), "\U0001F600");
  EXPECT_EQ(fixture.decode({'A', 0xFF}), "\uFFFD\uFFFD");  // the letter belongs to the run
  EXPECT_EQ(fixture.decode({'A', Fixture::kWorld, 0xFF}), "Aworld\uFFFD");
  EXPECT_EQ(fixture.decode({0xC3, Fixture::kSpecial, 0xA9}, true), "\u00e9");
  EXPECT_EQ(fixture.decode({0xC3, Fixture::kShown, 0xA9}, true), "\uFFFD<shown>\uFFFD");
}

TEST(Detokenizer, StreamsHoldBackHalfCharactersOnly) {
  const Fixture fixture(llama_like());
  EXPECT_EQ(fixture.stream({'A', 0xF0, 0x9F, 0x98, 0x80, 'B'}),
            (Chunks{"A", "", "", "", "\U0001F600", "B", ""}));
  EXPECT_EQ(fixture.stream({0xE2, 0x82, 'A'}), (Chunks{"", "", "\uFFFD\uFFFDA", ""}));
  EXPECT_EQ(fixture.stream({0xE2, 0x82}), (Chunks{"", "", "\uFFFD\uFFFD"}));
  EXPECT_EQ(fixture.stream({0xE2, 0x82, Fixture::kWorld}),
            (Chunks{"", "", "\uFFFD\uFFFDworld", ""}));
}

TEST(Detokenizer, ByteLevelShowsOneReplacementForEachPartOfACharacter) {
  DecoderOptions options;
  options.byte_alphabet = true;
  Vocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add("\u00e2", 0).ok());   // E2
  ASSERT_TRUE(vocabulary.add("\u0124", 1).ok());   // 82
  ASSERT_TRUE(vocabulary.add("\u00ac", 2).ok());   // AC
  ASSERT_TRUE(vocabulary.add("\u0120x", 3).ok());  // space, x
  const Detokenizer detokenizer(options, vocabulary, {});
  EXPECT_EQ(detokenizer.decode(Ids{0, 1, 2}, false), "\u20ac");
  EXPECT_EQ(detokenizer.decode(Ids{0, 1, 3}, false), "\uFFFD x");
  EXPECT_EQ(detokenizer.decode(Ids{1, 2}, false), "\uFFFD\uFFFD");
  DecodeProgress progress;
  EXPECT_EQ(detokenizer.push(0, false, progress), "");
  EXPECT_EQ(detokenizer.push(1, false, progress), "");
  EXPECT_EQ(detokenizer.push(3, false, progress), "\uFFFD x");
}

TEST(Detokenizer, FirstTokenLosesItsMarkWhereTheDecoderSaysSo) {
  DecoderOptions options;
  options.replacements.push_back({Pattern::literal("_"), " "});
  options.first_token_drops = "_";
  const Fixture fixture(options);
  EXPECT_EQ(fixture.decode({Fixture::kHello, Fixture::kHello}), "hello hello");
  EXPECT_EQ(fixture.stream({Fixture::kHello, Fixture::kHello}), (Chunks{"hello", " hello", ""}));
  EXPECT_EQ((*fixture).bytes(Fixture::kHello), " hello");
}

TEST(Detokenizer, IdsThatAreNotThereDecodeToNothing) {
  const Fixture fixture(llama_like());
  EXPECT_EQ(
      fixture.decode({-1, 299, 302, 1 << 30, std::numeric_limits<TokenId>::min(), Fixture::kWorld}),
      "world");
  EXPECT_EQ(fixture.decode({0xC3, 299, 0xA9}), "\u00e9");
  EXPECT_EQ((*fixture).bytes(-1), "");
  EXPECT_FALSE((*fixture).is_special(1 << 30));
  EXPECT_EQ((*fixture).size(), 302U);
}

}  // namespace
}  // namespace phidias
