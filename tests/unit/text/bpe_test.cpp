#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>

namespace phidias {
namespace {

using Ids = std::vector<TokenId>;
using Merges = std::vector<std::pair<std::string_view, std::string_view>>;

Vocabulary vocabulary_of(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_TRUE(vocabulary.add(tokens[i], i).ok());
  return vocabulary;
}

Ids encode(const Bpe& bpe, const Vocabulary& vocabulary, std::string_view word) {
  Bpe::Scratch scratch;
  Ids ids;
  bpe.encode(vocabulary, word, scratch, ids);
  return ids;
}

std::vector<std::string> with_bytes(std::vector<std::string> tokens) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    tokens.push_back(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
  }
  return tokens;
}

TEST(Bpe, LowestRankIsMergedFirstAndTheLeftmostOfEquals) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "ab", "bc", "abc", "aa"});
  const Bpe first = *Bpe::from_merges(vocabulary, Merges{{"b", "c"}, {"a", "b"}, {"a", "a"}}, {});
  EXPECT_EQ(encode(first, vocabulary, "abc"), (Ids{0, 4}));
  EXPECT_EQ(encode(first, vocabulary, "aaa"), (Ids{6, 0}));
  const Bpe second = *Bpe::from_merges(vocabulary, Merges{{"a", "b"}, {"b", "c"}, {"ab", "c"}}, {});
  EXPECT_EQ(encode(second, vocabulary, "abc"), (Ids{5}));
}

TEST(Bpe, ALaterMergeOfTheSamePairReplacesTheEarlier) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "ab", "bc"});
  const Bpe bpe = *Bpe::from_merges(vocabulary, Merges{{"a", "b"}, {"b", "c"}, {"a", "b"}}, {});
  EXPECT_EQ(encode(bpe, vocabulary, "abc"), (Ids{0, 4}));
}

TEST(Bpe, MergesThatNeedUnknownTokensAreRefusedByName) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b"});
  for (const Merges& merges : {Merges{{"a", "b"}}, Merges{{"x", "b"}}, Merges{{"a", "x"}}}) {
    const auto bpe = Bpe::from_merges(vocabulary, merges, {});
    ASSERT_FALSE(bpe.ok());
    EXPECT_EQ(bpe.error().code, Code::kCorrupt);
    EXPECT_NE(bpe.error().message.find("merge 0"), std::string::npos);
  }
}

TEST(Bpe, UnknownCharactersBecomeBytesOrTheUnknownTokenOrNothing) {
  const Vocabulary bytes = vocabulary_of(with_bytes({"<unk>", "a"}));
  BpeOptions options;
  options.byte_fallback = true;
  options.unknown = 0;
  EXPECT_EQ(encode(*Bpe::from_merges(bytes, {}, options), bytes, "a\u00e9"),
            (Ids{1, 2 + 0xC3, 2 + 0xA9}));

  const Vocabulary few = vocabulary_of({"<unk>", "a", "<0xC3>"});  // not all bytes: none is used
  EXPECT_EQ(encode(*Bpe::from_merges(few, {}, options), few, "x\u00e9a\u00e9"), (Ids{0, 0, 1, 0}));
  options.fuse_unknown = true;
  EXPECT_EQ(encode(*Bpe::from_merges(few, {}, options), few, "x\u00e9a\u00e9"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode(*Bpe::from_merges(few, {}, {}), few, "x\u00e9a"), (Ids{1}));
}

TEST(Bpe, AWholeWordGoesBeforeTheMergesWhereAsked) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "ab"});
  BpeOptions options;
  EXPECT_EQ(encode(*Bpe::from_merges(vocabulary, {}, options), vocabulary, "ab"), (Ids{0, 1}));
  options.ignore_merges = true;
  EXPECT_EQ(encode(*Bpe::from_merges(vocabulary, {}, options), vocabulary, "ab"), (Ids{2}));
}

TEST(Bpe, PiecesMergeByRankWithoutAListOfMerges) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "ab", "bc", "abc"});
  const std::vector<Bpe::RankedPiece> pieces = {{0, 9}, {1, 9}, {2, 9}, {3, 1}, {4, 0}, {5, 2}};
  const Bpe bpe = *Bpe::from_pieces(vocabulary, pieces, {});
  EXPECT_EQ(encode(bpe, vocabulary, "abc"), (Ids{5}));  // a + bc
  EXPECT_EQ(encode(bpe, vocabulary, "aab"), (Ids{0, 3}));
}

TEST(Bpe, EqualRanksGoFromLeftToRight) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "ab", "bc"});
  const std::vector<Bpe::RankedPiece> pieces = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
  EXPECT_EQ(encode(*Bpe::from_pieces(vocabulary, pieces, {}), vocabulary, "abc"), (Ids{3, 2}));
}

TEST(Bpe, CharactersThatAreNoTokensCanStillBePartsOfOne) {
  const Vocabulary vocabulary = vocabulary_of(with_bytes({"ab", "xyz", "xy"}));
  BpeOptions options;
  options.byte_fallback = true;
  const Bpe bpe = *Bpe::from_pieces(vocabulary, {{0, 0}, {1, 2}, {2, 1}}, options);
  EXPECT_EQ(encode(bpe, vocabulary, "ab"), (Ids{0}));
  EXPECT_EQ(encode(bpe, vocabulary, "xyz"), (Ids{1}));
  EXPECT_EQ(encode(bpe, vocabulary, "ba"), (Ids{3 + 'b', 3 + 'a'}));
}

TEST(Bpe, PiecesTooLongToBuildFromAreRefused) {
  const Vocabulary vocabulary = vocabulary_of({"a", std::string(2000, 'a')});
  const auto bpe = Bpe::from_pieces(vocabulary, {{0, 0}, {1, 1}}, {});
  ASSERT_FALSE(bpe.ok());
  EXPECT_EQ(bpe.error().code, Code::kUnsupported);
}

// The definition, in quadratic time: while there is a pair with a merge, do the one of lowest rank,
// leftmost first.
Ids merge_plainly(const Vocabulary& vocabulary, const Merges& merges, std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best = merges.size();
    size_t place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (merges[rank].first == parts[i] && merges[rank].second == parts[i + 1]) {
          best = rank;
          place = i;
        }
      }
    }
    if (best == merges.size()) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(*vocabulary.find(part));
  return ids;
}

TEST(Bpe, AgreesWithThePlainDefinitionOnRandomMerges) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c", "d"};
    std::vector<std::pair<std::string, std::string>> made;
    for (int i = 0; i < 14; ++i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      const std::string joined = left + right;
      if (joined.size() > 8 || std::find(tokens.begin(), tokens.end(), joined) != tokens.end())
        continue;
      tokens.push_back(joined);
      made.emplace_back(left, right);
    }
    const Vocabulary vocabulary = vocabulary_of(tokens);
    const Merges merges(made.begin(), made.end());
    const Bpe bpe = *Bpe::from_merges(vocabulary, merges, {});
    for (int i = 0; i < 40; ++i) {
      std::string word;
      for (size_t n = random() % 30; n > 0; --n) word += "abcd"[random() % 4];
      ASSERT_EQ(encode(bpe, vocabulary, word), merge_plainly(vocabulary, merges, word)) << word;
    }
  }
}

TEST(Vocabulary, RefusesIdsAndTextsTwiceAndOutOfRange) {
  Vocabulary vocabulary;
  EXPECT_TRUE(vocabulary.add("a", 3).ok());
  EXPECT_EQ(vocabulary.size(), 4U);
  EXPECT_EQ(vocabulary.add("b", 3).error().code, Code::kCorrupt);
  EXPECT_EQ(vocabulary.add("a", 4).error().code, Code::kCorrupt);
  EXPECT_EQ(vocabulary.add("c", uint64_t{1} << 31).error().code, Code::kCorrupt);
  EXPECT_EQ(vocabulary.add("c", kMaxVocabularySize).error().code, Code::kCorrupt);
  EXPECT_EQ(vocabulary.add("\xFF", 5).error().code, Code::kCorrupt);
  EXPECT_EQ(vocabulary.find("a"), 3);
  EXPECT_EQ(vocabulary.find("b"), std::nullopt);
  EXPECT_FALSE(vocabulary.contains(0));
  EXPECT_TRUE(vocabulary.text(0).empty());
  EXPECT_TRUE(vocabulary.text(-1).empty());
}

TEST(Vocabulary, AnEmptyTokenIsThere) {
  Vocabulary vocabulary;
  EXPECT_TRUE(vocabulary.add("", 0).ok());
  EXPECT_TRUE(vocabulary.contains(0));
  EXPECT_EQ(vocabulary.find(""), 0);
}

TEST(ByteTokens, AreReadInBothCases) {
  EXPECT_EQ(parse_byte_token("<0x0A>"), 10);
  EXPECT_EQ(parse_byte_token("<0xff>"), 255);
  for (const char* text : {"<0x0G>", "<0x0A", "0x0A", "<0x0A>>", "<0X0A>", ""}) {
    EXPECT_EQ(parse_byte_token(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace phidias
