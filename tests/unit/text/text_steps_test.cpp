// Normalizers, pre-tokenizers and the byte alphabet.
#include <gtest/gtest.h>

#include "text/byte_level.h"
#include "text/normalizer.h"
#include "text/patterns.h"
#include "text/pre_tokenizer.h"

namespace phidias {
namespace {

using Texts = std::vector<std::string>;

Texts words(const PreTokenizer& steps, std::string_view text, bool at_origin = true) {
  Texts all;
  pre_tokenize(steps, text, at_origin).for_each([&](std::string_view word) {
    all.emplace_back(word);
  });
  return all;
}

SplitAtPattern split_at(std::string text, SplitBehavior behavior, bool invert = false) {
  return {Pattern::literal(std::move(text)), behavior, invert};
}

TEST(Normalizer, PrependLeavesTheEmptyTextEmpty) {
  const Normalizer steps = {PrependText{"_"}};
  EXPECT_EQ(normalize(steps, "a"), "_a");
  EXPECT_EQ(normalize(steps, ""), "");
}

TEST(Normalizer, StepsRunInOrder) {
  const Normalizer steps = {PrependText{" "}, ReplaceText{Pattern::literal(" "), "_"}};
  EXPECT_EQ(normalize(steps, "a b"), "_a_b");
}

TEST(Normalizer, UnicodeFormsComposeAndDecompose) {
  const auto form = [](UnicodeForm f, std::string_view text) { return normalize({f}, text); };
  EXPECT_EQ(form(UnicodeForm::kNfc, "e\u0301\u1100\u1161"), "\u00e9\uac00");
  EXPECT_EQ(form(UnicodeForm::kNfd, "\u00e9\uac00"), "e\u0301\u1100\u1161");
  EXPECT_EQ(form(UnicodeForm::kNfkc, "\ufb01\u2460"), "fi1");
  EXPECT_EQ(form(UnicodeForm::kNfkd, "\u00c5\u2460"), "A\u030a1");
  EXPECT_EQ(form(UnicodeForm::kNfc, "\ufb01"), "\ufb01");
  // Marks are put in order: the one below goes first.
  EXPECT_EQ(form(UnicodeForm::kNfd, "x\u0301\u0316"), "x\u0316\u0301");
}

TEST(Normalizer, ALongRunOfMarksInTheWrongOrderIsSorted) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0316";
  const std::string sorted = normalize({UnicodeForm::kNfd}, text);
  ASSERT_EQ(sorted.size(), text.size());
  EXPECT_TRUE(sorted.starts_with("\u0316\u0316"));
  EXPECT_TRUE(sorted.ends_with("\u0301\u0301"));
}

TEST(Normalizer, LowercaseKeepsTheDotOfTheTurkishCapital) {
  EXPECT_EQ(normalize({LowercaseText{}}, "AÉ\u0130"), "a\u00e9i\u0307");
}

TEST(Normalizer, StripTakesWhiteSpaceFromTheEndsAsked) {
  EXPECT_EQ(normalize({StripText{true, true}}, " \u3000a b\n"), "a b");
  EXPECT_EQ(normalize({StripText{true, false}}, " a "), "a ");
  EXPECT_EQ(normalize({StripText{false, true}}, " a "), " a");
  EXPECT_EQ(normalize({StripText{true, true}}, " \n"), "");
  EXPECT_EQ(normalize({StripText{false, false}}, " \n"), " \n");
}

TEST(PreTokenizer, SplitBehavesInFiveWays) {
  const auto cut = [](SplitBehavior behavior) {
    return words({split_at("-", behavior)}, "the-final--countdown");
  };
  EXPECT_EQ(cut(SplitBehavior::kRemoved), (Texts{"the", "final", "countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kIsolated), (Texts{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kMergedWithPrevious), (Texts{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kMergedWithNext), (Texts{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kContiguous), (Texts{"the", "-", "final", "--", "countdown"}));
}

TEST(PreTokenizer, InvertedRemovalKeepsTheMatches) {
  EXPECT_EQ(words({split_at("ab", SplitBehavior::kRemoved, true)}, "xabyab"), (Texts{"ab", "ab"}));
}

TEST(PreTokenizer, NoStepGivesTheWholeSegment) {
  EXPECT_EQ(words({}, "a b"), (Texts{"a b"}));
  EXPECT_TRUE(words({}, "").empty());
}

TEST(PreTokenizer, MetaspacePutsItsMarkInFrontAsTheSchemeSays) {
  using Prepend = MetaspaceWords::Prepend;
  const auto mark = [](Prepend prepend, std::string_view text, bool at_origin) {
    return words({MetaspaceWords{"_", prepend}}, text, at_origin).front();
  };
  EXPECT_EQ(mark(Prepend::kAlways, "a b", false), "_a_b");
  EXPECT_EQ(mark(Prepend::kAlways, " a", false), "_a");
  EXPECT_EQ(mark(Prepend::kFirst, "a", true), "_a");
  EXPECT_EQ(mark(Prepend::kFirst, "a", false), "a");
  EXPECT_EQ(mark(Prepend::kNever, "a", true), "a");
}

TEST(PreTokenizer, FirstWordIsNotAtTheOriginOnceItsTextWasRemoved) {
  const PreTokenizer steps = {split_at("-", SplitBehavior::kRemoved),
                              MetaspaceWords{"_", MetaspaceWords::Prepend::kFirst}};
  EXPECT_EQ(words(steps, "-a-b"), (Texts{"a", "b"}));
  EXPECT_EQ(words(steps, "a-b"), (Texts{"_a", "b"}));
}

TEST(PreTokenizer, SpaceIsPutInFrontOfEachWordThatHasNone) {
  EXPECT_EQ(words({split_at("-", SplitBehavior::kIsolated), PrependSpace{}}, "a- b"),
            (Texts{" a", " -", " b"}));
}

TEST(PreTokenizer, ExpressionsOfTheModelsCutTextAsTheirTokenizersDo) {
  const auto cut = [](std::string_view expression, std::string_view text) {
    auto pattern = Pattern::regex(expression);
    EXPECT_TRUE(pattern.ok());
    return words({SplitAtPattern{*pattern, SplitBehavior::kIsolated, false}}, text);
  };
  EXPECT_EQ(cut(kGpt2Expression, "it's 1234  x\n\n"),
            (Texts{"it", "'s", " 1234", " ", " x", "\n\n"}));
  EXPECT_EQ(cut(kCl100kExpression, "it'S 1234  x\n\n y"),
            (Texts{"it", "'S", " ", "123", "4", " ", " x", "\n\n", " y"}));
  EXPECT_EQ(cut(kO200kExpression, "isn't HTTPServer /\n/"),
            (Texts{"isn't", " HTTPServer", " /\n/"}));
}

TEST(ByteAlphabet, EveryByteHasItsOwnVisibleCharacter) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string text = bytes_to_alphabet(all);
  EXPECT_EQ(alphabet_to_bytes(text), all);
  EXPECT_EQ(bytes_to_alphabet(" \n"), "\u0120\u010a");
  EXPECT_EQ(bytes_to_alphabet("a~"), "a~");
  EXPECT_EQ(alphabet_to_bytes("a b"), std::nullopt);  // the space itself is not in the alphabet
  EXPECT_EQ(alphabet_to_bytes("\u0144"), std::nullopt);
}

}  // namespace
}  // namespace phidias
