// Runs that a callback ends.
#include "small_model.h"

namespace phidias {
namespace {

using EarlyEnd = test::SmallModel;

TEST_F(EarlyEnd, ACallbackEndsATrace) {
  size_t later = 0;
  Trace trace(*engine_, ids_, {.generate = 4});
  trace.edit(kValues.layers[1].layer_output,
             [](const View&, const Where& where) { *where.cancel = where.position > 0; });
  trace.edit(kValues.layers[2].layer_output, [&](const View&, const Where&) { ++later; });
  const auto traced = trace.run();
  ASSERT_FALSE(traced.ok());
  EXPECT_EQ(traced.error().code, Code::kCancelled);
  EXPECT_EQ(later, 1U);  // in the prompt's pass; the next one was left in the middle
}

TEST_F(EarlyEnd, ACallbackEndsItsAnswerAlone) {
  GenerateRequest plain;
  plain.prompt = ids_;
  plain.max_tokens = 6;
  plain.stop_ids = std::vector<TokenId>();
  GenerateRequest ended = plain;
  ended.edits += on_live(
      kValues.layers[1].layer_output.ref(),
      [&](const View&, const Where& where) { *where.cancel = where.position >= ids_.size() + 1; });
  const std::vector<GenerateRequest> requests{ended, plain};
  const auto results = generate(*engine_, requests);
  ASSERT_TRUE(results.ok());
  const Choice& choice = results->at(0).choices.at(0);
  EXPECT_EQ(choice.finish, FinishReason::kCancelled);
  EXPECT_EQ(choice.tokens.size(), 2U);
  const auto alone = generate(*engine_, plain);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(results->at(1).choices.at(0).text, alone->choices.at(0).text);
  EXPECT_EQ(results->at(1).choices.at(0).tokens.size(), 6U);
}

}  // namespace
}  // namespace phidias
