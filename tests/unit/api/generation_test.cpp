#include "phidias/generation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "api/model_impl.h"
#include "support/reference.h"

namespace phidias {
namespace {

class Generation : public testing::Test {
 protected:
  void SetUp() override {
    auto model = Model::load(test::data("models/mini-128k"));
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    model_ = *model;
  }
  std::unique_ptr<Engine> engine(EngineOptions options = {}) {
    auto created = Engine::create(model_, options);
    EXPECT_TRUE(created.ok()) << created.error().to_string();
    return std::move(*created);
  }
  static GenerateRequest request(std::vector<TokenId> prompt, uint32_t max_tokens) {
    GenerateRequest made;
    made.prompt = std::move(prompt);
    made.max_tokens = max_tokens;
    made.stop_ids = std::vector<TokenId>();
    return made;
  }
  static std::vector<TokenId> ids(const Choice& choice) {
    std::vector<TokenId> all;
    for (const GeneratedToken& token : choice.tokens) all.push_back(token.id);
    return all;
  }
  static std::vector<TokenId> prompt_of(size_t length, TokenId first) {
    std::vector<TokenId> prompt;
    for (size_t i = 0; i < length; ++i)
      prompt.push_back(static_cast<TokenId>(4 + (static_cast<size_t>(first) * 31 + i * 7) % 310));
    return prompt;
  }

  std::shared_ptr<const Model> model_;
};

// Four streams that start on both sides of the LongRoPE border and grow past it together.
TEST_F(Generation, StreamsAcrossTheRopeSwitchEqualTheirSoloRuns) {
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const auto engine = this->engine({.numerics = numerics, .step_rows = 9});
    std::vector<GenerateRequest> requests;
    for (const size_t length : {6U, 12U, 14U, 20U}) {
      requests.push_back(request(prompt_of(length, static_cast<TokenId>(length)), 12));
      requests.back().sampling.temperature = 0.8;
      requests.back().sampling.seed = length;
    }
    const auto together = generate(*engine, requests);
    ASSERT_TRUE(together.ok()) << together.error().to_string();
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = generate(*engine, requests[i]);
      ASSERT_TRUE(alone.ok());
      EXPECT_EQ(ids((*together)[i].choices[0]), ids(alone->choices[0])) << i;
      EXPECT_EQ(alone->choices[0].finish, FinishReason::kLength);
    }
    EXPECT_EQ(engine->cache_bytes_in_use(), 0U);
  }
}

TEST_F(Generation, ChoicesDifferAndTheSetRepeats) {
  const auto engine = this->engine();
  auto asked = request(prompt_of(15, 3), 8);
  asked.choices = 4;
  asked.sampling.temperature = 1;
  asked.sampling.seed = 1;
  const auto first = generate(*engine, asked);
  const auto second = generate(*engine, asked);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_EQ(first->choices.size(), 4U);
  std::vector<std::vector<TokenId>> sets;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ids(first->choices[i]), ids(second->choices[i]));
    sets.push_back(ids(first->choices[i]));
  }
  std::sort(sets.begin(), sets.end());
  EXPECT_EQ(std::unique(sets.begin(), sets.end()), sets.end());
  // The first of several is the one alone.
  asked.choices = 1;
  const auto alone = generate(*engine, asked);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(ids(alone->choices[0]), ids(first->choices[0]));
  asked.choices = 1000;
  EXPECT_FALSE(generate(*engine, asked).ok());
  asked.choices = 0;
  EXPECT_FALSE(generate(*engine, asked).ok());
}

TEST_F(Generation, StopIdsEndAnAnswerAndAreKeptInItsIds) {
  const auto engine = this->engine();
  const auto free = generate(*engine, request(prompt_of(5, 9), 10));
  ASSERT_TRUE(free.ok());
  const auto all = ids(free->choices[0]);
  auto asked = request(prompt_of(5, 9), 10);
  asked.stop_ids = std::vector<TokenId>{all[4]};
  const auto stopped = generate(*engine, asked);
  ASSERT_TRUE(stopped.ok());
  const auto length = std::find(all.begin(), all.end(), all[4]) - all.begin() + 1;
  EXPECT_EQ(ids(stopped->choices[0]), std::vector<TokenId>(all.begin(), all.begin() + length));
  EXPECT_EQ(stopped->choices[0].finish, FinishReason::kStop);
}

TEST_F(Generation, EndsAtTheContextWithoutAnEnd) {
  const auto engine = this->engine({.context = 20});
  const auto result = generate(*engine, request(prompt_of(15, 2), 1000));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->choices[0].tokens.size(), 5U);
  EXPECT_EQ(result->choices[0].finish, FinishReason::kLength);
  const auto refused = generate(*engine, request(prompt_of(20, 2), 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kCapacityExceeded);
  EXPECT_NE(refused.error().message.find("20"), std::string::npos);
}

TEST_F(Generation, ContextBeyondTheModelsIsRefusedWithItsLimit) {
  const auto refused = Engine::create(model_, {.context = 8192});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("128"), std::string::npos) << refused.error().message;
}

TEST_F(Generation, TheConfiguredContextChangesNoNumber) {
  std::vector<std::vector<TokenId>> answers;
  for (const uint32_t context : {16U, 64U, 128U}) {
    const auto result = generate(*engine({.numerics = Numerics::kExact, .context = context}),
                                 request(prompt_of(10, 1), 6));
    ASSERT_TRUE(result.ok());
    answers.push_back(ids(result->choices[0]));
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

TEST_F(Generation, ACallbackCanCancelOneRequestWhileOthersGoOn) {
  const auto engine = this->engine();
  const std::vector<GenerateRequest> requests{request(prompt_of(4, 1), 20),
                                              request(prompt_of(4, 2), 20)};
  size_t seen = 0;
  const auto results = generate(*engine, requests, [&](const GenerateEvent& event) {
    return event.request != 0 || ++seen < 3;
  });
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0].choices[0].finish, FinishReason::kCancelled);
  EXPECT_EQ((*results)[0].choices[0].tokens.size(), 3U);
  EXPECT_EQ((*results)[1].choices[0].tokens.size(), 20U);
}

TEST_F(Generation, ALongPromptCanBeCancelledBetweenItsSteps) {
  const auto engine = this->engine({.step_rows = 8});
  size_t asked = 0;
  const auto result =
      generate(*engine, request(prompt_of(100, 1), 5), [&](const GenerateEvent& event) {
        EXPECT_EQ(event.token, nullptr);
        return ++asked < 3;
      });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->choices[0].finish, FinishReason::kCancelled);
  EXPECT_LE(asked, 4U);  // three steps, and the end
}

TEST_F(Generation, TheRopeSwitchNeedsNoSecondSetOfPages) {
  const auto probe = this->engine({.page_positions = 4});
  const auto engine = this->engine(
      {.cache_budget = 6 * 4 * probe->memory().cache_per_position, .page_positions = 4});
  const auto result = generate(*engine, request(prompt_of(14, 1), 8));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->choices[0].finish, FinishReason::kLength);
  EXPECT_EQ(result->choices[0].tokens.size(), 8U);
}

TEST_F(Generation, ASequenceOfTheCallersIsGoneOnWith) {
  for (const RopeSwitch policy : {RopeSwitch::kReprefill, RopeSwitch::kLong}) {
    const auto engine = this->engine({.numerics = Numerics::kExact});
    const SequenceId sequence = engine->open({.rope_switch = policy, .prompt_tokens = 0});
    auto asked = request(prompt_of(9, 5), 4);
    asked.rope_switch = policy;
    asked.sequence = sequence;
    const auto first = generate(*engine, asked);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(first->cached_tokens, 0U);
    for (const GeneratedToken& token : first->choices[0].tokens) asked.prompt.push_back(token.id);
    asked.prompt.insert(asked.prompt.end(), {30, 31, 32, 33, 34, 35});
    const auto second = generate(*engine, asked);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->cached_tokens, 12U);  // the last token of the first answer was never fed
    auto fresh = asked;
    fresh.sequence = 0;
    const auto expected = generate(*engine, fresh);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(ids(second->choices[0]), ids(expected->choices[0]));
    // Back to a shorter conversation, before the switch.
    asked.prompt.resize(7);
    fresh.prompt.resize(7);
    const auto third = generate(*engine, asked);
    const auto expected_third = generate(*engine, fresh);
    ASSERT_TRUE(third.ok() && expected_third.ok());
    EXPECT_EQ(third->cached_tokens, 6U);
    EXPECT_EQ(ids(third->choices[0]), ids(expected_third->choices[0]));
    engine->close(sequence);
    EXPECT_EQ(engine->cache_bytes_in_use(), 0U);
  }
}

TEST_F(Generation, TheCacheBudgetIsRefusedWithFiguresAndEndsOnlyWhoPassesIt) {
  const auto probe = this->engine({.page_positions = 4});
  const uint64_t page = probe->memory().cache_per_position * 4;
  const auto engine = this->engine({.cache_budget = 6 * page, .page_positions = 4});
  EXPECT_EQ(engine->memory().largest_context, 24U);
  const std::vector<GenerateRequest> requests{
      request(prompt_of(8, 1), 4), request(prompt_of(100, 2), 4), request(prompt_of(4, 3), 4)};
  const auto results = generate(*engine, requests);
  ASSERT_TRUE(results.ok()) << results.error().to_string();
  EXPECT_EQ((*results)[0].choices[0].finish, FinishReason::kLength);
  EXPECT_EQ((*results)[2].choices[0].finish, FinishReason::kLength);
  ASSERT_EQ((*results)[1].choices[0].finish, FinishReason::kError);
  EXPECT_NE((*results)[1].choices[0].error->message.find("--ctx"), std::string::npos);
  EXPECT_EQ(engine->cache_bytes_in_use(), 0U);
}

TEST_F(Generation, CacheBytesFollowTheFormula) {
  const auto engine = this->engine({.kv = "f16"});
  const ModelInfo& info = model_->info();
  EXPECT_EQ(engine->memory().cache_per_position,
            2ULL * info.num_layers * info.num_kv_heads * info.head_dim * 2);
  EXPECT_EQ(engine->cache_bytes_in_use(), 0U);
}

TEST_F(Generation, ExactNumericsRefuseARoundedCache) {
  const auto refused = Engine::create(model_, {.numerics = Numerics::kExact, .kv = "f16"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST_F(Generation, LogProbabilitiesAreOfTheModelItself) {
  const auto engine = this->engine();
  auto asked = request(prompt_of(6, 4), 3);
  asked.sampling.temperature = 2;
  asked.top_log_probabilities = 320;
  const auto result = generate(*engine, asked);
  ASSERT_TRUE(result.ok());
  for (const GeneratedToken& token : result->choices[0].tokens) {
    double mass = 0;
    for (const TokenLogProbability& other : token.best) {
      EXPECT_LE(other.log_probability, 0);
      mass += std::exp(other.log_probability);
    }
    EXPECT_NEAR(mass, 1, 1e-6);
  }
}

TEST_F(Generation, TwoEnginesLiveInOneProcess) {
  const auto first = this->engine({.threads = 2});
  const auto second = this->engine({.threads = 2});
  std::vector<TokenId> answers[2];
  std::thread other(
      [&] { answers[1] = ids(generate(*second, request(prompt_of(20, 6), 20))->choices[0]); });
  answers[0] = ids(generate(*first, request(prompt_of(20, 6), 20))->choices[0]);
  other.join();
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_F(Generation, InvalidRequestsAreRefusedWithTheField) {
  const auto engine = this->engine();
  EXPECT_FALSE(generate(*engine, request({}, 1)).ok());
  EXPECT_FALSE(generate(*engine, request({320}, 1)).ok());
  EXPECT_FALSE(generate(*engine, request({-1}, 1)).ok());
  auto asked = request({5}, 1);
  asked.stop_strings = {"x"};  // this checkpoint has no tokenizer
  EXPECT_FALSE(generate(*engine, asked).ok());
  asked = request({5}, 1);
  asked.sampling.top_p = -1;
  EXPECT_FALSE(generate(*engine, asked).ok());
}

// 85 rows of a public list: any valid prompt, never a crash. Under the sanitizers this is the check
// of the whole path.
TEST_F(Generation, RandomPromptsOfAnyLengthRun) {
  const auto engine = this->engine({.step_rows = 32, .page_positions = 8});
  uint64_t state = 88172645463325252U;
  auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  for (int round = 0; round < 60; ++round) {
    std::vector<GenerateRequest> requests;
    for (size_t i = 0; i < 1 + next() % 4; ++i) {
      std::vector<TokenId> prompt;
      for (size_t k = 0; k < 1 + next() % 100; ++k)
        prompt.push_back(static_cast<TokenId>(next() % 320));
      requests.push_back(request(std::move(prompt), static_cast<uint32_t>(1 + next() % 8)));
    }
    const auto results = generate(*engine, requests);
    ASSERT_TRUE(results.ok());
    for (const GenerateResult& result : *results)
      EXPECT_EQ(result.choices[0].finish, FinishReason::kLength);
  }
}

}  // namespace
}  // namespace phidias
