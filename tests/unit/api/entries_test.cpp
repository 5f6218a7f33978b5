// Every entry equals running its sequences alone, bit for bit.
#include "phidias/entries.h"

#include <gtest/gtest.h>

#include "engine/categorical.h"
#include "support/reference.h"

namespace phidias {
namespace {

class Entries : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto model = Model::load(test::data(std::filesystem::path("models") / GetParam()));
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    auto engine = Engine::create(*model, {.numerics = Numerics::kExact});
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    engine_ = std::move(*engine);
    vocab_ = engine_->vocab();
  }

  // Logits of the last token of a sequence run alone, in one pass, with the rotation that its own
  // length asks for.
  Logits alone(const std::vector<TokenId>& tokens) {
    const SequenceId sequence =
        engine_->open({.rope_switch = RopeSwitch::kReprefill,
                       .prompt_tokens = static_cast<uint32_t>(tokens.size())});
    std::vector<Row> rows;
    for (size_t i = 0; i < tokens.size(); ++i)
      rows.push_back({tokens[i], sequence, static_cast<uint32_t>(i), i + 1 == tokens.size()});
    Logits logits;
    EXPECT_TRUE(
        engine_
            ->step(rows, [&](size_t,
                             std::span<const float> row) { logits.assign(row.begin(), row.end()); })
            .ok());
    engine_->close(sequence);
    return logits;
  }
  Logits row(const Logits& logits, size_t index) const {
    return {logits.begin() + static_cast<ptrdiff_t>(index * vocab_),
            logits.begin() + static_cast<ptrdiff_t>((index + 1) * vocab_)};
  }
  static TokenId best(const Logits& logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  static std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  std::unique_ptr<Engine> engine_;
  size_t vocab_ = 0;
  const std::vector<TokenId> a_{11, 200, 31, 44, 5};
  const std::vector<TokenId> b_{300, 17, 17, 90, 64};
  const std::vector<TokenId> long_{7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                   17, 18, 19, 20, 21, 22, 23, 24, 25};  // beyond the switch
};

TEST_P(Entries, ForwardEqualsEachSequenceAlone) {
  auto rows = Rows::create(*engine_, 1);
  ASSERT_TRUE(rows.ok());
  const auto logits = rows->forward(joined(a_, b_), 2);
  ASSERT_TRUE(logits.ok());
  ASSERT_EQ(logits->size(), 10 * vocab_);
  for (size_t s = 0; s < a_.size(); ++s) {
    // Causality: a position's logits are those of the prefix that ends there.
    EXPECT_EQ(row(*logits, s), alone({a_.begin(), a_.begin() + static_cast<ptrdiff_t>(s) + 1}));
  }
  EXPECT_EQ(row(*logits, 9), alone(b_));
}

TEST_P(Entries, NextTokenIsTheLastRowOfForward) {
  auto rows = Rows::create(*engine_, 1);
  ASSERT_TRUE(rows.ok());
  const auto logits = rows->next_token(joined(a_, b_), 2);
  ASSERT_TRUE(logits.ok());
  EXPECT_EQ(row(*logits, 0), alone(a_));
  EXPECT_EQ(row(*logits, 1), alone(b_));
  EXPECT_FALSE(rows->next_token(a_, 2).ok());
}

TEST_P(Entries, PrefillThenDecodeEqualsOnePass) {
  auto rows = Rows::create(*engine_, 2);
  ASSERT_TRUE(rows.ok());
  const auto prompt = rows->prefill(joined(a_, b_), 0);
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(row(*prompt, 0), alone(a_));
  EXPECT_EQ(row(*prompt, 1), alone(b_));
  const std::vector<TokenId> next{3, 4};
  const auto decoded = rows->decode(next, 5);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(row(*decoded, 0), alone(joined(a_, {3})));
  EXPECT_EQ(row(*decoded, 1), alone(joined(b_, {4})));
  // A prompt that comes in two parts, and a token written over: what was there is forgotten.
  const auto more = rows->prefill(std::vector<TokenId>{9, 9, 8, 8}, 6);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(row(*more, 0), alone(joined(a_, {3, 9, 9})));
  const auto over = rows->decode(std::vector<TokenId>{50, 51}, 5);
  ASSERT_TRUE(over.ok());
  EXPECT_EQ(row(*over, 1), alone(joined(b_, {51})));
  EXPECT_EQ(rows->length(0), 6U);
  EXPECT_FALSE(rows->decode(next, 9).ok());  // a hole
}

TEST_P(Entries, PrefillSlotsPadsAndEqualsAlone) {
  auto rows = Rows::create(*engine_, 3);
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE(rows->prefill(std::vector<TokenId>{1, 2, 3}, 0).ok());  // something to be replaced
  std::vector<TokenId> padded = long_;
  padded.insert(padded.end(), a_.begin(), a_.end());
  padded.resize(2 * long_.size(), 0);
  const auto logits =
      rows->prefill_slots(padded, std::vector<size_t>{2, 0}, std::vector<uint32_t>{19, 5});
  ASSERT_TRUE(logits.ok()) << logits.error().to_string();
  EXPECT_EQ(row(*logits, 0), alone(long_));
  EXPECT_EQ(row(*logits, 1), alone(a_));
  EXPECT_EQ(rows->length(2), 19U);
  EXPECT_EQ(rows->length(1), 1U);
  EXPECT_FALSE(
      rows->prefill_slots(padded, std::vector<size_t>{1, 1}, std::vector<uint32_t>{1, 1}).ok());
}

TEST_P(Entries, PrefillPackedKeepsPromptsApart) {
  auto rows = Rows::create(*engine_, 3);
  ASSERT_TRUE(rows.ok());
  std::vector<TokenId> packed = joined(joined(a_, long_), b_);
  std::vector<size_t> places;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> segments;
  const std::pair<size_t, size_t> prompts[] = {{1, a_.size()}, {0, long_.size()}, {2, b_.size()}};
  for (uint32_t segment = 0; segment < 3; ++segment) {
    for (uint32_t i = 0; i < prompts[segment].second; ++i) {
      places.push_back(prompts[segment].first);
      positions.push_back(i);
      segments.push_back(segment);
    }
  }
  const std::vector<size_t> last{28, 4, 23, 4};  // in any order, one twice
  const auto logits = rows->prefill_packed(packed, places, positions, segments, last);
  ASSERT_TRUE(logits.ok()) << logits.error().to_string();
  EXPECT_EQ(row(*logits, 0), alone(b_));
  EXPECT_EQ(row(*logits, 1), alone(a_));
  EXPECT_EQ(row(*logits, 2), alone(long_));
  EXPECT_EQ(row(*logits, 3), alone(a_));
}

TEST_P(Entries, DecodeRowsTakesEachRowAtItsOwnPosition) {
  auto rows = Rows::create(*engine_, 2);
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE(
      rows->prefill_slots(joined(a_, {}), std::vector<size_t>{0}, std::vector<uint32_t>{5}).ok());
  ASSERT_TRUE(rows->prefill_slots(long_, std::vector<size_t>{1}, std::vector<uint32_t>{16}).ok());
  // The second row crosses the switch with this token: its whole prefix is run again.
  const auto logits =
      rows->decode_rows(std::vector<TokenId>{77, long_[16]}, std::vector<uint32_t>{5, 16});
  ASSERT_TRUE(logits.ok()) << logits.error().to_string();
  EXPECT_EQ(row(*logits, 0), alone(joined(a_, {77})));
  EXPECT_EQ(row(*logits, 1), alone({long_.begin(), long_.begin() + 17}));
}

TEST_P(Entries, StepPackedIsPromptsAndStepsInOnePass) {
  auto rows = Rows::create(*engine_, 3);
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE(rows->prefill_slots(a_, std::vector<size_t>{0}, std::vector<uint32_t>{5}).ok());
  ASSERT_TRUE(rows->prefill_slots(b_, std::vector<size_t>{2}, std::vector<uint32_t>{5}).ok());
  std::vector<uint32_t> positions(long_.size());
  for (uint32_t i = 0; i < positions.size(); ++i) positions[i] = i;
  const auto logits = rows->step_packed(long_, std::vector<size_t>(long_.size(), 1), positions,
                                        std::vector<uint32_t>(long_.size(), 0),
                                        std::vector<size_t>{18}, std::vector<size_t>{0, 2},
                                        std::vector<TokenId>{60, 61}, std::vector<uint32_t>{5, 5});
  ASSERT_TRUE(logits.ok()) << logits.error().to_string();
  EXPECT_EQ(row(*logits, 0), alone(long_));
  EXPECT_EQ(row(*logits, 1), alone(joined(a_, {60})));
  EXPECT_EQ(row(*logits, 2), alone(joined(b_, {61})));
}

TEST_P(Entries, GenerateIsGreedyStepByStepForEveryRow) {
  auto rows = Rows::create(*engine_, 2);
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE(
      rows->prefill(joined({a_.begin(), a_.end() - 1}, {b_.begin(), b_.end() - 1}), 0).ok());
  constexpr size_t kSteps = 15;  // beyond the switch
  const auto produced = rows->generate(std::vector<TokenId>{a_.back(), b_.back()}, 4, kSteps);
  ASSERT_TRUE(produced.ok()) << produced.error().to_string();
  for (size_t b = 0; b < 2; ++b) {
    std::vector<TokenId> tokens = b == 0 ? a_ : b_;
    for (size_t i = 0; i < kSteps; ++i) {
      const TokenId expected = best(alone(tokens));
      ASSERT_EQ((*produced)[b * kSteps + i], expected) << "row " << b << " step " << i;
      tokens.push_back(expected);
    }
  }
}

TEST_P(Entries, GenerateUntilStopsWhenEveryRowHasEnded) {
  auto rows = Rows::create(*engine_, 1);
  ASSERT_TRUE(rows.ok());
  const auto free = rows->generate(std::vector<TokenId>{a_[0]}, 0, 6);
  ASSERT_TRUE(free.ok());
  const TokenId eos = (*free)[2];
  const size_t first =
      static_cast<size_t>(std::find(free->begin(), free->end(), eos) - free->begin());
  const auto stopped = rows->generate_until(std::vector<TokenId>{a_[0]}, 0, 6, eos);
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->count, first + 1);
  EXPECT_TRUE(std::equal(stopped->tokens.begin(),
                         stopped->tokens.begin() + static_cast<ptrdiff_t>(stopped->count),
                         free->begin()));
  for (size_t i = stopped->count; i < 6; ++i) EXPECT_EQ(stopped->tokens[i], 0);
}

TEST_P(Entries, SampleFollowsTheKeySchedule) {
  auto rows = Rows::create(*engine_, 2);
  ASSERT_TRUE(rows.ok());
  const std::array<uint32_t, 2> key{0, 42};
  const auto drawn = rows->sample(std::vector<TokenId>{11, 300}, 0, 4, key, 0.8);
  ASSERT_TRUE(drawn.ok()) << drawn.error().to_string();
  const auto keys = split(RandomKey{key}, 4);
  std::vector<TokenId> a{11};
  std::vector<TokenId> b{300};
  for (size_t i = 0; i < 4; ++i) {
    Logits both = alone(a);
    const Logits second = alone(b);
    both.insert(both.end(), second.begin(), second.end());
    const auto expected = categorical(keys[i], both, vocab_, 0.8, static_cast<uint32_t>(i + 1));
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ((*drawn)[i], (*expected)[0]);
    EXPECT_EQ((*drawn)[4 + i], (*expected)[1]);
    a.push_back((*expected)[0]);
    b.push_back((*expected)[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Entries, testing::Values("mini-4k", "mini-128k"),
                         [](const auto& model) {
                           return std::string(model.param) == "mini-4k" ? std::string("window")
                                                                        : std::string("longrope");
                         });

}  // namespace
}  // namespace phidias
