#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace phidias {
namespace {

AddedToken token(TokenId id, std::string text) {
  AddedToken made;
  made.id = id;
  made.text = std::move(text);
  return made;
}

// Pieces as text: a token's id in front of what it covers, "-" for text between.
std::vector<std::string> split(const AddedTokens& added, std::string_view text,
                               AddedTokens::Stage stage = AddedTokens::Stage::kRaw,
                               char32_t guard = 0) {
  std::vector<std::string> pieces;
  for (const auto& piece : added.split(text, stage, guard)) {
    const std::string name = piece.token == nullptr ? "-" : std::to_string(piece.token->id);
    pieces.push_back(name + ":" + std::string(text.substr(piece.begin, piece.end - piece.begin)));
  }
  return pieces;
}

using Pieces = std::vector<std::string>;

AddedTokens with(const std::vector<AddedToken>& tokens, const Normalizer& normalizer = {}) {
  AddedTokens added;
  for (const AddedToken& one : tokens) EXPECT_TRUE(added.add(one).ok());
  added.finish(normalizer);
  return added;
}

TEST(AddedTokens, LeftmostThenLongestIsFound) {
  const AddedTokens added = with({token(1, "<a>"), token(2, "<a>b"), token(3, "b<")});
  EXPECT_EQ(split(added, "x<a>b<a>"), (Pieces{"-:x", "2:<a>b", "1:<a>"}));
  EXPECT_EQ(split(added, "b<a>"), (Pieces{"3:b<", "-:a>"}));
  EXPECT_EQ(split(added, ""), Pieces{});
  EXPECT_EQ(split(added, "<a"), (Pieces{"-:<a"}));
}

TEST(AddedTokens, WhiteSpaceIsSwallowedOnTheSidesThatTheFlagsName) {
  AddedToken left = token(1, "<l>");
  left.lstrip = true;
  AddedToken right = token(2, "<r>");
  right.rstrip = true;
  const AddedTokens added = with({left, right});
  EXPECT_EQ(split(added, "a <l> b"), (Pieces{"-:a", "1: <l>", "-: b"}));
  EXPECT_EQ(split(added, "a <r>\u3000\n b"), (Pieces{"-:a ", "2:<r>\u3000\n ", "-:b"}));
  // What one token swallowed, the next does not swallow again.
  EXPECT_EQ(split(added, "<r>  <l>"), (Pieces{"2:<r>  ", "1:<l>"}));
  // A joiner and the byte order mark are not white space.
  EXPECT_EQ(split(added, "<r>\u200b"), (Pieces{"2:<r>", "-:\u200b"}));
}

TEST(AddedTokens, SingleWordsStandBesideNoLetter) {
  AddedToken word = token(1, "the");
  word.single_word = true;
  const AddedTokens added = with({word});
  EXPECT_EQ(split(added, "the cat, the"), (Pieces{"1:the", "-: cat, ", "1:the"}));
  EXPECT_EQ(split(added, "bathe"), (Pieces{"-:bathe"}));
  EXPECT_EQ(split(added, "the\u00e9"), (Pieces{"-:the\u00e9"}));
  EXPECT_EQ(split(added, "\u0301the"), (Pieces{"-:\u0301the"}));
}

TEST(AddedTokens, NormalizedTokensAreLookedForAfterNormalization) {
  AddedToken normal = token(1, "ABC");
  normal.normalized = true;
  const Normalizer lower = {LowercaseText{}};
  const AddedTokens added = with({normal, token(2, "X")}, lower);
  EXPECT_TRUE(added.has_normalized());
  EXPECT_EQ(split(added, "abcX"), (Pieces{"-:abc", "2:X"}));
  EXPECT_EQ(split(added, "abcX", AddedTokens::Stage::kNormalized), (Pieces{"1:abc", "-:X"}));
}

TEST(AddedTokens, GuardHidesWhatATextSpellsOut) {
  constexpr char32_t kGuard = 0xE000;
  const AddedTokens added = with({token(1, "<a>"), token(2, "<a>b"), token(3, "#")});
  const std::string guarded = added.guarded("x<a>b#<a", kGuard);
  EXPECT_EQ(guarded, "x<\ue000a>b#\ue000<a");
  EXPECT_EQ(split(added, guarded, AddedTokens::Stage::kRaw, kGuard), (Pieces{"-:" + guarded}));
  EXPECT_EQ(split(added, guarded + "<a>", AddedTokens::Stage::kRaw, kGuard).back(), "1:<a>");
}

TEST(AddedTokens, BadEntriesAreRefusedByName) {
  AddedTokens added;
  EXPECT_TRUE(added.add(token(1, "<a>")).ok());
  EXPECT_TRUE(added.add(token(1, "<a>")).ok());  // the same again
  EXPECT_EQ(added.add(token(1, "<b>")).error().code, Code::kCorrupt);
  EXPECT_EQ(added.add(token(-1, "<b>")).error().code, Code::kCorrupt);
  EXPECT_EQ(added.add(token(1 << 23, "<b>")).error().code, Code::kCorrupt);
  EXPECT_EQ(added.add(token(2, "\xFF")).error().code, Code::kCorrupt);
  EXPECT_EQ(added.add(token(2, std::string(5000, 'x'))).error().code, Code::kUnsupported);
  EXPECT_NE(added.add(token(1, "<b>")).error().message.find("<b>"), std::string::npos);
}

}  // namespace
}  // namespace phidias
