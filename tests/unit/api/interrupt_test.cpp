// Work is ended from outside between two of its passes, and leaves sequences as they were.
#include <gtest/gtest.h>

#include "phidias/attribution.h"
#include "phidias/engine.h"
#include "phidias/lens.h"
#include "support/reference.h"

namespace phidias {
namespace {

// A model whose list of rotary factors changes at 16 positions.
class Interrupt : public testing::Test {
 protected:
  void SetUp() override {
    auto model = Model::load(test::data("models/mini-128k"));
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    auto engine = Engine::create(*model, {.numerics = Numerics::kExact, .step_rows = 4});
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    engine_ = std::move(*engine);
  }

  static std::vector<TokenId> tokens(size_t count) {
    std::vector<TokenId> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(10 + i));
    return ids;
  }
  // Extends a sequence; logits of its last token.
  Status extend(SequenceId sequence, const std::vector<TokenId>& ids, std::vector<float>& logits) {
    std::vector<Row> rows;
    uint32_t position = engine_->length(sequence);
    for (size_t i = 0; i < ids.size(); ++i)
      rows.push_back({ids[i], sequence, position++, i + 1 == ids.size()});
    return engine_->step(
        rows, [&](size_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); });
  }
  // Ends the work in front of the pass with this number.
  void interrupt_before(int pass) {
    asked_ = 0;
    engine_->interrupt_with([this, pass] { return ++asked_ == pass; });
  }

  std::unique_ptr<Engine> engine_;
  int asked_ = 0;
};

TEST_F(Interrupt, LeavesASequenceAsItWas) {
  const SequenceId sequence = engine_->open();
  std::vector<float> logits;
  std::vector<float> expected;
  ASSERT_TRUE(extend(sequence, tokens(3), logits).ok());
  const SequenceId whole = *engine_->fork(sequence);
  ASSERT_TRUE(extend(whole, tokens(10), expected).ok());
  for (const int pass : {1, 2, 3}) {
    interrupt_before(pass);
    const Status status = extend(sequence, tokens(10), logits);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCancelled);
    EXPECT_EQ(asked_, pass);
    EXPECT_EQ(engine_->length(sequence), 3U);
  }
  engine_->interrupt_with({});
  ASSERT_TRUE(extend(sequence, tokens(10), logits).ok());
  EXPECT_EQ(logits, expected);
}

TEST_F(Interrupt, EmptiesASequenceThatIsBeingRunAnew) {
  const SequenceId sequence = engine_->open();
  std::vector<float> logits;
  ASSERT_TRUE(extend(sequence, tokens(16), logits).ok());
  interrupt_before(2);
  EXPECT_FALSE(extend(sequence, {5}, logits).ok());
  EXPECT_EQ(engine_->length(sequence), 0U);
}

TEST_F(Interrupt, EndsWhatIsMadeOfPasses) {
  interrupt_before(3);
  const auto traced = Trace(*engine_, tokens(12)).run();
  ASSERT_FALSE(traced.ok());
  EXPECT_EQ(traced.error().code, Code::kCancelled);
  interrupt_before(5);  // behind its three passes: in the rows of the head
  const auto lens = logit_lens(*engine_, tokens(12));
  ASSERT_FALSE(lens.ok());
  EXPECT_EQ(lens.error().code, Code::kCancelled);
  engine_->interrupt_with({});
  EXPECT_TRUE(logit_lens(*engine_, tokens(12)).ok());
}

TEST_F(Interrupt, AttributionTellsOfItsRuns) {
  const auto metric = metric_from_json(R"({"logit": 7})", engine_->model());
  ASSERT_TRUE(metric.ok());
  const std::vector<ValueRef> values{*parse_value("layers[*].layer_output")};
  std::vector<std::pair<size_t, size_t>> told;
  AttributionOptions options;
  options.method = AttributionMethod::kIntegrated;
  options.steps = 2;
  options.progress = [&](size_t done, size_t all) {
    told.emplace_back(done, all);
    return told.size() < 4;
  };
  auto other = tokens(6);
  other[3] = 99;
  const auto found = attribute(*engine_, tokens(6), other, *metric, values, options);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Code::kCancelled);
  const size_t all = 2 + 2 * engine_->model().info().num_layers;
  EXPECT_EQ(told, (std::vector<std::pair<size_t, size_t>>{{2, all}, {3, all}, {4, all}, {5, all}}));
}

}  // namespace
}  // namespace phidias
