#include "engine/stop_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phidias {
namespace {

StopText make(std::vector<std::string> stops) {
  auto created = StopText::create(std::move(stops));
  EXPECT_TRUE(created.ok());
  return std::move(created).value();
}

std::string run(StopText& stop, const std::vector<std::string>& pieces) {
  std::string sent;
  for (const std::string& piece : pieces) sent += stop.push(piece);
  return sent + stop.flush();
}

// C172: the first half of a stop string had already been sent.
TEST(StopText, StopStringSplitAcrossPiecesIsFound) {
  StopText stop = make({"lue sk"});
  EXPECT_EQ(stop.push("A b"), "A b");
  EXPECT_EQ(stop.push("lu"), "");
  EXPECT_EQ(stop.push("e s"), "");
  EXPECT_FALSE(stop.matched().has_value());
  EXPECT_EQ(stop.push("ky"), "");
  EXPECT_EQ(stop.matched(), 0u);
  EXPECT_EQ(stop.flush(), "");
}

// C174: a held tail was lost at the end.
TEST(StopText, HeldTailIsReleasedAtTheEnd) {
  StopText stop = make({"END\nZZ"});
  EXPECT_EQ(stop.push("one two END"), "one two ");
  EXPECT_EQ(stop.flush(), "END");
  EXPECT_FALSE(stop.matched().has_value());
}

// C175: later text leaked behind the stop.
TEST(StopText, NothingFollowsTheStop) {
  StopText stop = make({"four"});
  std::string sent;
  for (const char* piece : {"one, ", "two, three", ", fo", "ur, five", ", six"})
    sent += stop.push(piece);
  EXPECT_EQ(sent + stop.flush(), "one, two, three, ");
  EXPECT_EQ(stop.matched(), 0u);
}

// C220: a stop was only found where a token was exactly that text.
TEST(StopText, StopInsideAPieceIsFound) {
  StopText stop = make({"\n"});
  EXPECT_EQ(stop.push(".\n\n"), ".");
  EXPECT_TRUE(stop.matched().has_value());
}

TEST(StopText, FalseStartIsReleasedAsSoonAsItIsDecided) {
  StopText stop = make({"aab"});
  EXPECT_EQ(stop.push("a"), "");
  EXPECT_EQ(stop.push("a"), "");
  EXPECT_EQ(stop.push("a"), "a");  // the last two may still begin one
  EXPECT_EQ(stop.push("c"), "aac");
  EXPECT_EQ(stop.push("aab"), "");
  EXPECT_TRUE(stop.matched().has_value());
}

TEST(StopText, EarliestStartWinsThenTheShortest) {
  StopText overlapping = make({"bc", "abcd"});
  EXPECT_EQ(run(overlapping, {"xabcd"}), "x");
  EXPECT_EQ(overlapping.matched(), 1u);
  StopText nested = make({"abcd", "ab"});
  EXPECT_EQ(run(nested, {"xabcd"}), "x");
  EXPECT_EQ(nested.matched(), 1u);
}

TEST(StopText, CompleteStopWaitsForTheOneThatBeganBeforeIt) {
  StopText stop = make({"bc", "abcd"});
  EXPECT_EQ(stop.push("abc"), "");
  EXPECT_FALSE(stop.matched().has_value());
  EXPECT_EQ(stop.push("x"), "a");
  EXPECT_EQ(stop.matched(), 0u);

  StopText ended = make({"bc", "abcd"});
  EXPECT_EQ(run(ended, {"abc"}), "a");
  EXPECT_EQ(ended.matched(), 0u);
}

TEST(StopText, HowTheTextIsCutMakesNoDifference) {
  const std::vector<std::vector<std::string>> lists{
      {"abab"}, {"ba", "abb"}, {"bb", "abab", "aab"}, {"abba", "b"}, {"aaaa", "aab", "ba"}, {"c"}};
  for (unsigned letters = 0; letters < 256; ++letters) {
    std::string text;
    for (unsigned bit = 0; bit < 8; ++bit) text += letters >> bit & 1 ? 'b' : 'a';
    for (const auto& stops : lists) {
      StopText whole = make(stops);
      const std::string expected = run(whole, {text});
      for (unsigned cuts = 0; cuts < 128; ++cuts) {
        std::vector<std::string> pieces{""};
        for (unsigned i = 0; i < 8; ++i) {
          pieces.back() += text[i];
          if (cuts >> i & 1) pieces.emplace_back();
        }
        StopText cut = make(stops);
        ASSERT_EQ(run(cut, pieces), expected) << text << " cut by " << cuts;
        ASSERT_EQ(cut.matched(), whole.matched()) << text << " cut by " << cuts;
      }
    }
  }
}

TEST(StopText, CharactersStayWhole) {
  StopText stop = make({"\xC3\xA9t\xC3\xA9"});   // "été"
  EXPECT_EQ(stop.push("\xC3\xA8"), "\xC3\xA8");  // "è" shares the first byte only
  EXPECT_EQ(stop.push("x\xC3\xA9"), "x");        // "é" may begin the stop
  EXPECT_EQ(stop.push("\xF0\x9F\x98\x80"), "\xC3\xA9\xF0\x9F\x98\x80");
}

TEST(StopText, WithoutStopStringsTextPassesThrough) {
  StopText stop = make({});
  EXPECT_EQ(stop.push("anything"), "anything");
  EXPECT_EQ(stop.push(""), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopText, RefusesStringsThatCannotEndText) {
  const auto empty = StopText::create({"ok", ""});
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, Code::kInvalidArgument);
  EXPECT_EQ(empty.error().place.item, "stop[1]");
  EXPECT_FALSE(StopText::create({"\xA9"}).ok());
}

}  // namespace
}  // namespace phidias
