// Reads and edits of requests that run beside others.
#include "small_model.h"

namespace phidias {
namespace {

class TracedGeneration : public test::SmallModel {
 protected:
  GenerateRequest request(uint32_t tokens = 6) const {
    GenerateRequest request;
    request.prompt = ids_;
    request.max_tokens = tokens;
    request.stop_ids = std::vector<TokenId>();
    return request;
  }
  GenerateRequest looked_into() const {
    GenerateRequest traced = request();
    traced.reads = parse_reads(
        {"layers[1].layer_output", "layers[2].attention_probabilities[head=1]", "logits"});
    traced.edits += kValues.layers[1].layer_output.at(kDecode) += 0.5F;
    traced.edits += kValues.layers[0].self_attn.attention_scores.key(3) = kHidden;
    return traced;
  }
  std::vector<Read> parse_reads(const std::vector<std::string>& paths) const {
    std::vector<Read> reads;
    for (const std::string& path : paths) {
      auto read = parse_read(path, engine_->model());
      EXPECT_TRUE(read.ok());
      reads.push_back(read->front());
    }
    return reads;
  }
  std::vector<GenerateResult> generated(const std::vector<GenerateRequest>& requests) {
    auto results = generate(*engine_, requests);
    EXPECT_TRUE(results.ok()) << results.error().to_string();
    return results.ok() ? std::move(*results) : std::vector<GenerateResult>(requests.size());
  }
  static std::vector<TokenId> tokens(const Choice& choice) {
    std::vector<TokenId> ids;
    for (const GeneratedToken& token : choice.tokens) ids.push_back(token.id);
    return ids;
  }
  static void expect_same(const Traced& a, const Traced& b) {
    ASSERT_EQ(a.entries.size(), b.entries.size());
    for (size_t i = 0; i < a.entries.size(); ++i)
      EXPECT_EQ(a.entries[i].tensor, b.entries[i].tensor) << a.entries[i].name;
  }
};

TEST_F(TracedGeneration, EqualsATraceThatGenerates) {
  const GenerateRequest wanted = looked_into();
  const Choice choice = generated({wanted})[0].choices.at(0);
  Trace trace(*engine_, ids_, {.generate = 6});
  for (const Read& read : wanted.reads) trace.read(read);
  trace.edit(wanted.edits);
  const Traced traced = run(trace);
  EXPECT_EQ(tokens(choice), traced.tokens);
  expect_same(choice.traced, traced);
  EXPECT_EQ(choice.traced.edits[0].rows, 5U);
  EXPECT_NE(tokens(choice), tokens(generated({request()})[0].choices.at(0)));
}

TEST_F(TracedGeneration, IsTheSameAmongOthersAndLeavesThemAlone) {
  const Choice alone = generated({looked_into()})[0].choices.at(0);
  const Choice plain = generated({request()})[0].choices.at(0);
  GenerateRequest longer = request(9);
  longer.prompt.insert(longer.prompt.begin(), {7, 8, 9, 10});
  const auto together = generated({request(), longer, looked_into(), longer});
  EXPECT_EQ(tokens(together[0].choices.at(0)), tokens(plain));
  EXPECT_EQ(tokens(together[2].choices.at(0)), tokens(alone));
  expect_same(together[2].choices.at(0).traced, alone.traced);
}

// T12: among 1 to 16 others, each with a plan of its own or none, in any place of the batch; also
// on 4-bit weights in fast numerics.
TEST_F(TracedGeneration, EachOfManyRequestsKeepsItsOwnBits) {
  for (const char* weights : {"file", "q4"}) {
    auto model = Model::load(test::data("models/mini-4k"), {.weights = weights});
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    const bool exact = std::string_view(weights) == "file";
    engine_ = start(*model, {.numerics = exact ? Numerics::kExact : Numerics::kFast});
    std::vector<GenerateRequest> kinds{looked_into(), request(), request(9), request(), request()};
    kinds[1].reads = parse_reads({"layers[*].attention_probabilities", "logits"});
    kinds[2].prompt.insert(kinds[2].prompt.begin(), {7, 8, 9, 10});
    kinds[2].edits += skip_layers(1, 1);
    kinds[3].edits +=
        uniform(kValues.layers[0].self_attn.attention_probabilities.head(1).at(kDecode));
    kinds[3].reads = parse_reads({"layers[0].layer_output"});
    std::vector<Choice> alone;
    for (const GenerateRequest& kind : kinds) alone.push_back(generated({kind})[0].choices.at(0));
    for (const size_t others : {1U, 3U, 7U, 16U}) {
      std::vector<size_t> order;
      for (size_t i = 0; i <= others; ++i) order.push_back((i * 7 + others) % kinds.size());
      std::vector<GenerateRequest> batch;
      for (const size_t kind : order) batch.push_back(kinds[kind]);
      const auto together = generated(batch);
      for (size_t i = 0; i < order.size(); ++i) {
        EXPECT_EQ(tokens(together[i].choices.at(0)), tokens(alone[order[i]])) << i;
        expect_same(together[i].choices.at(0).traced, alone[order[i]].traced);
      }
    }
  }
}

TEST_F(TracedGeneration, WhatACachedPromptHoldsIsReusedBelowTheFirstPositionThatIsLookedInto) {
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    engine_ = start(load(), {.numerics = numerics});
    const auto length = static_cast<int64_t>(ids_.size());
    GenerateRequest steered = request();
    steered.edits += kValues.layers[1].layer_output.at(kDecode) += 0.5F;
    steered.reads = parse_reads({"layers[2].layer_output[at=8:]"});
    GenerateRequest patterned = request();
    patterned.edits += kValues.layers[1].self_attn.attention_scores.key(3).query(length - 1) =
        kHidden;
    const Choice fresh = generated({steered})[0].choices.at(0);
    const Choice plain = generated({request()})[0].choices.at(0);
    const Choice hidden = generated({patterned})[0].choices.at(0);

    const SequenceId sequence = engine_->open();
    const auto again = [&](GenerateRequest wanted) {
      wanted.sequence = sequence;
      return generated({wanted})[0];
    };
    EXPECT_EQ(again(request()).cached_tokens, 0U);
    const GenerateResult reused = again(steered);
    EXPECT_EQ(reused.cached_tokens, 8U);
    EXPECT_EQ(tokens(reused.choices.at(0)), tokens(fresh));
    expect_same(reused.choices.at(0).traced, fresh.traced);
    // What the edits made of the answer is gone; what lies before it is not.
    EXPECT_EQ(engine_->length(sequence), ids_.size());
    const GenerateResult next = again(request());
    EXPECT_EQ(next.cached_tokens, ids_.size() - 1);
    EXPECT_EQ(tokens(next.choices.at(0)), tokens(plain));
    const GenerateResult last = again(patterned);
    EXPECT_EQ(last.cached_tokens, numerics == Numerics::kExact ? ids_.size() - 1 : 0);
    EXPECT_EQ(tokens(last.choices.at(0)), tokens(hidden));
    EXPECT_EQ(tokens(again(request()).choices.at(0)), tokens(plain));
    engine_->close(sequence);
  }
}

TEST_F(TracedGeneration, EveryAnswerHasItsOwnValues) {
  GenerateRequest several = looked_into();
  several.choices = 3;
  several.sampling.temperature = 2;
  several.sampling.seed = 4;
  const GenerateResult result = generated({several})[0];
  for (const Choice& choice : result.choices) {
    std::vector<TokenId> whole = ids_;
    for (const TokenId id : tokens(choice)) whole.push_back(id);
    whole.pop_back();
    Trace trace(*engine_, whole);
    const auto key = trace.read(kValues.layers[1].layer_output);
    const auto after = Positions::range(static_cast<int64_t>(ids_.size()));
    trace.edit(kValues.layers[1].layer_output.at(after) += 0.5F);
    trace.edit(kValues.layers[0].self_attn.attention_scores.key(3) = kHidden);
    EXPECT_EQ(choice.traced.entries[0].tensor, run(trace)[key]);
  }
}

TEST_F(TracedGeneration, AnAnswerThatStopsEarlyHasTheRowsThatWereRun) {
  GenerateRequest stopping = request(40);
  stopping.reads = parse_reads({"layers[0].layer_output", "layers[0].attention_scores"});
  const auto full = tokens(generated({request(3)})[0].choices.at(0));
  stopping.stop_ids = std::vector<TokenId>{full[2]};
  const Choice choice = generated({stopping})[0].choices.at(0);
  const uint64_t rows = ids_.size() + choice.tokens.size() - 1;
  EXPECT_EQ(choice.traced.entries[0].tensor.shape, (std::vector<uint64_t>{1, rows, 64}));
  EXPECT_EQ(choice.traced.entries[1].tensor.shape, (std::vector<uint64_t>{1, 4, rows, rows}));
  EXPECT_EQ(choice.traced.entries[1].tensor.floats.size(), 4 * rows * rows);
}

TEST_F(TracedGeneration, ARequestThatCannotBeReadIsRefusedAlone) {
  Generator generator(*engine_);
  GenerateRequest wrong = request();
  wrong.edits += zero(kValues.layers[9].layer_output);
  EXPECT_FALSE(generator.submit(wrong).ok());
  GenerateRequest large = request();
  large.reads = parse_reads({"logits"});
  large.max_read_bytes = 10;
  EXPECT_FALSE(generator.submit(large).ok());
  const auto number = generator.submit(request());
  ASSERT_TRUE(number.ok());
  while (!generator.done()) ASSERT_TRUE(generator.step().ok());
  EXPECT_EQ(tokens(generator.take(*number).choices.at(0)),
            tokens(generated({request()})[0].choices.at(0)));
}

}  // namespace
}  // namespace phidias
