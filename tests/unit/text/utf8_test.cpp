#include "base/utf8.h"

#include <gtest/gtest.h>

namespace phidias {
namespace {

TEST(Utf8, EveryCharacterIsReadAsItWasWritten) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = read_utf8(text, 0);
    ASSERT_EQ(step.state, Utf8State::kCharacter) << static_cast<uint32_t>(c);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(read_valid_utf8(text, 0).code_point, c);
    ASSERT_EQ(read_valid_utf8(text, 0).length, text.size());
    // Cut short, it may still become a character.
    for (size_t length = 1; length < text.size(); ++length) {
      const Utf8Step part = read_utf8(std::string_view(text).substr(0, length), 0);
      ASSERT_EQ(part.state, Utf8State::kIncomplete);
      ASSERT_EQ(part.length, length);
    }
  }
}

TEST(Utf8, OverlongFormsSurrogatesAndNumbersTooLargeAreBroken) {
  for (const char* text :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\x80"}) {
    const Utf8Step step = read_utf8(text, 0);
    EXPECT_EQ(step.state, Utf8State::kBroken);
    EXPECT_EQ(step.length, 1);
    EXPECT_FALSE(is_valid_utf8(text));
  }
}

TEST(Utf8, OneReplacementStandsForTheLongestPartThatCouldHaveBegunACharacter) {
  EXPECT_EQ(to_valid_utf8("a\xE2\x82z"), "a\uFFFDz");
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xC3\x28"), "\uFFFD(");
}

TEST(Utf8, ValidTextIsLeftAlone) {
  const std::string text = "plain, caf\u00e9, \u6f22\u5b57, \U0001F600, and a long tail of letters";
  EXPECT_TRUE(is_valid_utf8(text));
  EXPECT_EQ(to_valid_utf8(text), text);
  EXPECT_TRUE(is_valid_utf8(""));
}

TEST(Utf8, ABrokenByteIsFoundBehindAnyNumberOfLetters) {
  for (size_t letters = 0; letters < 40; ++letters) {
    EXPECT_FALSE(is_valid_utf8(std::string(letters, 'a') + "\xFF" + std::string(20, 'b')))
        << letters;
  }
}

TEST(Utf8, WhiteSpaceHasTwentyFiveCharacters) {
  int count = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) count += is_white_space(c) ? 1 : 0;
  EXPECT_EQ(count, 25);
  for (const char32_t c : {0x1CU, 0x1FU, 0x180EU, 0x200BU, 0xFEFFU})
    EXPECT_FALSE(is_white_space(c));
}

}  // namespace
}  // namespace phidias
