// A real small instruct model: fused, unfused and straight from its GGUF, against the reference's
// greedy answers, logits and perplexities. The checkpoints are made by the reference data's own
// script (tests/README.md).
#include <gtest/gtest.h>

#include "phidias/generation.h"
#include "phidias/perplexity.h"
#include "phidias/prompt.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias {
namespace {

struct RealCase {
  const char* name;
  const char* checkpoint;  // in PHIDIAS_REAL_MODEL
  const char* reference;   // in the reference data's real/
};

void PrintTo(const RealCase& real, std::ostream* stream) { *stream << real.name; }

class RealModel : public testing::TestWithParam<RealCase> {
 protected:
  void SetUp() override {
    const auto path = std::filesystem::path(PHIDIAS_REAL_MODEL) / GetParam().checkpoint;
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << "the real model has not been made: " << path.string();
    reference_ = test::reference(std::filesystem::path("real") / GetParam().reference);
    PHIDIAS_NEEDS_REFERENCE(reference_ / "reference.json");
    auto model = Model::load(path);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    model_ = *model;
  }

  std::unique_ptr<Engine> engine(EngineOptions options) {
    auto created = Engine::create(model_, options);
    EXPECT_TRUE(created.ok()) << created.error().to_string();
    return std::move(*created);
  }

  std::filesystem::path reference_;
  std::shared_ptr<const Model> model_;
};

std::vector<ChatMessage> messages_of(const Json& json) {
  std::vector<ChatMessage> messages;
  for (const Json& message : json)
    messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
  return messages;
}

std::vector<TokenId> ids_of(const GenerateResult& result) {
  std::vector<TokenId> ids;
  for (const GeneratedToken& token : result.choices.front().tokens) ids.push_back(token.id);
  return ids;
}

TEST_P(RealModel, RenderedConversationsHaveTheReferencesIds) {
  const Json json = test::read_json(reference_ / "reference.json");
  for (const Json& prompt : json["prompts"]) {
    const auto ours = chat_prompt(*model_->tokenizer(), *model_->chat_template(),
                                  messages_of(prompt["messages"]), {}, true);
    ASSERT_TRUE(ours.ok()) << ours.error().to_string();
    EXPECT_EQ(ours->text, prompt["rendered"].get<std::string>());
    EXPECT_EQ(ours->ids, prompt["prompt_ids"].get<std::vector<TokenId>>()) << prompt["name"];
  }
}

TEST_P(RealModel, GreedyAnswersAreTheReferencesTokenForToken) {
  const auto engine = this->engine({.numerics = Numerics::kExact});
  std::vector<GenerateRequest> requests;
  std::vector<std::vector<TokenId>> expected;
  const Json json = test::read_json(reference_ / "reference.json");
  for (const Json& prompt : json["prompts"]) {
    GenerateRequest request;
    request.prompt = prompt["prompt_ids"].get<std::vector<TokenId>>();
    request.max_tokens = 64;
    requests.push_back(request);
    expected.push_back(prompt["ids"].get<std::vector<TokenId>>());
  }
  // All together, so that batching is tried on real text too.
  const auto results = generate(*engine, requests);
  ASSERT_TRUE(results.ok()) << results.error().to_string();
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(ids_of((*results)[i]), expected[i]) << "prompt " << i;
}

TEST_P(RealModel, AnAnswerIsTheSameAloneAndBesideOthersInFastNumerics) {
  const auto engine = this->engine({.numerics = Numerics::kFast});
  std::vector<GenerateRequest> requests;
  const Json json = test::read_json(reference_ / "reference.json");
  for (const Json& prompt : json["prompts"]) {
    GenerateRequest request;
    request.prompt = prompt["prompt_ids"].get<std::vector<TokenId>>();
    request.max_tokens = 24;
    request.sampling.temperature = 0.9;
    request.sampling.seed = 7;
    requests.push_back(request);
  }
  const auto together = generate(*engine, requests);
  ASSERT_TRUE(together.ok()) << together.error().to_string();
  for (size_t i = 0; i < 4; ++i) {
    const auto alone = generate(*engine, requests[i]);
    ASSERT_TRUE(alone.ok());
    EXPECT_EQ(ids_of(*alone), ids_of((*together)[i])) << "prompt " << i;
  }
}

TEST_P(RealModel, PerplexityIsTheReferences) {
  const Json reference = test::read_json(reference_ / "reference.json");
  const Json& json = reference["perplexity"];
  const auto tensors = test::read_tensors(reference_ / "perplexity.safetensors");
  for (const auto& [numerics, bound] :
       {std::pair(Numerics::kExact, 1e-4), std::pair(Numerics::kFast, 5e-3)}) {
    const auto engine = this->engine({.numerics = numerics});
    for (const Json& text : json) {
      const auto& flat = tensors.integers.at(text["text"].get<std::string>() + ".ids");
      // A few windows of each text: the whole is for the command line.
      const size_t windows = std::min<size_t>(2, text["windows"].get<size_t>());
      const std::vector<TokenId> ids(flat.begin(),
                                     flat.begin() + static_cast<ptrdiff_t>(512 * windows));
      const auto result = perplexity(*engine, ids);
      ASSERT_TRUE(result.ok()) << result.error().to_string();
      for (size_t w = 0; w < windows; ++w) {
        const double expected = text["window_nll"][w].get<double>();
        EXPECT_NEAR(result->windows[w], expected, bound * expected)
            << text["text"] << " window " << w;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, RealModel,
    testing::Values(RealCase{"fused", "phi3", "."}, RealCase{"unfused", "llama", "."},
                    RealCase{"gguf", "SmolLM2-135M-Instruct.Q4_1.gguf", "gguf"}),
    [](const auto& real) { return std::string(real.param.name); });

}  // namespace
}  // namespace phidias
