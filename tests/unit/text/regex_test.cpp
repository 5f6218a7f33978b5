#include "text/regex.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace phidias {
namespace {

using Matches = std::vector<std::pair<size_t, size_t>>;

Matches matches(const Pattern& pattern, std::string_view text) {
  Matches found;
  pattern.for_each_match(text, [&](size_t begin, size_t end) { found.emplace_back(begin, end); });
  return found;
}

Matches matches(std::string_view expression, std::string_view text) {
  const auto pattern = Pattern::regex(expression);
  EXPECT_TRUE(pattern.ok()) << expression << ": " << pattern.error().message;
  return pattern.ok() ? matches(*pattern, text) : Matches{};
}

TEST(Pattern, LiteralsMatchFromLeftToRightWithoutOverlap) {
  EXPECT_EQ(matches(Pattern::literal("aa"), "aaaaa"), (Matches{{0, 2}, {2, 4}}));
  EXPECT_TRUE(matches(Pattern::literal(""), "abc").empty());
}

TEST(Pattern, EmptyMatchesCountUnlessTheyTouchAMatch) {
  EXPECT_EQ(matches("x*", "axxb"), (Matches{{0, 0}, {1, 3}, {4, 4}}));
  EXPECT_EQ(matches("(?=b)", "abab"), (Matches{{1, 1}, {3, 3}}));
}

TEST(Pattern, WhiteSpaceIsTheUnicodeProperty) {
  // The vowel separator U+180E was white space once; the separators U+001C..U+001F are not.
  EXPECT_TRUE(matches(R"(\s)", "\u180e\x1c\u200b").empty());
  EXPECT_EQ(matches(R"(\s)", "\u0085\u3000").size(), 2U);
  EXPECT_EQ(matches(R"([^\s]+)", "a\u180eb"), (Matches{{0, 5}}));
}

TEST(Pattern, WordCharactersAreThoseOfTheFilesDialect) {
  EXPECT_EQ(matches(R"(\w+)", "a_\u203f\u0301\u24b6\u00b2"), (Matches{{0, 12}}));
  EXPECT_TRUE(
      matches(R"([\w])", "\u00b2").empty());  // inside a class it does not count, there as here
  EXPECT_EQ(matches(R"(\bx)", "x \u24b6x x"), (Matches{{0, 1}, {7, 8}}));
}

TEST(Pattern, LinesHaveTheirOwnStartAndEnd) {
  EXPECT_EQ(matches("^a", "a\na"), (Matches{{0, 1}, {2, 3}}));
  EXPECT_EQ(matches(R"(\s+$)", "a \nb  "), (Matches{{1, 2}, {4, 6}}));
}

TEST(Pattern, CaseIsFoldedAsInUnicode) { EXPECT_EQ(matches("(?i:'s)", "'S '\u017f").size(), 2U); }

TEST(Pattern, SyntaxThatTheDialectsReadDifferentlyIsRefused) {
  for (const char* expression :
       {R"(\h)", "a{2}+", "[a&&b]", "[a[b]]", "(*ACCEPT)", R"([\S])", R"(\Q.\E)", "\\"}) {
    const auto pattern = Pattern::regex(expression);
    ASSERT_FALSE(pattern.ok()) << expression;
    EXPECT_EQ(pattern.error().code, Code::kUnsupported) << expression;
  }
}

TEST(Pattern, BrokenExpressionsAreErrorsWithAReason) {
  for (const char* expression : {"(", "a)", "[z-a]", R"(\p{Nonesuch})"}) {
    const auto pattern = Pattern::regex(expression);
    ASSERT_FALSE(pattern.ok()) << expression;
    EXPECT_EQ(pattern.error().code, Code::kCorrupt) << expression;
    EXPECT_GT(pattern.error().message.size(), 30U);
  }
}

TEST(Pattern, WorkWithoutEndStopsAtTheLimit) {
  // Every way to cut the run into pieces fails at the end: 2^40 of them.
  const std::string text = std::string(40, 'a') + "!";
  EXPECT_TRUE(matches("(?:a|a)*$x", text).empty());
  EXPECT_TRUE(matches("(?:a+)+$x", text).empty());
}

TEST(Pattern, DeepBacktrackingDoesNotNeedTheStack) {
  EXPECT_EQ(matches("(?:ab?)+", std::string(300'000, 'a')), (Matches{{0, 300'000}}));
}

TEST(Pattern, ReplacesLiterally) {
  EXPECT_EQ(Pattern::literal(" ").replace("a b c", "$1"), "a$1b$1c");
  EXPECT_EQ(Pattern::literal("x").replace("", "y"), "");
}

}  // namespace
}  // namespace phidias
