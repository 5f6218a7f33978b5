// The lens, attribution, control vectors, patching sweeps, heads, and runs that stop on the way.
#include <cmath>

#include "phidias/heads.h"
#include "phidias/lens.h"
#include "phidias/live.h"
#include "phidias/steering.h"
#include "small_model.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

class Helpers : public test::SmallModel {};

TEST_F(Helpers, TheLensOfTheLastLayerIsTheModelItself) {
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    engine_ = start(load(), {.numerics = numerics});
    const auto projected = project_on_vocab(*engine_, read(kValues.layers[-1].layer_output));
    ASSERT_TRUE(projected.ok());
    EXPECT_EQ(projected->floats, logits());
  }
  EXPECT_FALSE(project_on_vocab(*engine_, std::vector<float>(65)).ok());
}

TEST_F(Helpers, TheLensShowsEachLayersOwnPrediction) {
  const auto lens = logit_lens(*engine_, ids_, {.top = 3, .at = Positions({2, -1}), .edits = {}});
  ASSERT_TRUE(lens.ok());
  EXPECT_EQ(lens->layers, 3U);
  EXPECT_EQ(lens->positions, (std::vector<uint32_t>{2, static_cast<uint32_t>(ids_.size() - 1)}));
  const auto early = project_on_vocab(*engine_, read(kValues.layers[0].layer_output.at(2)));
  ASSERT_TRUE(early.ok());
  const auto best = top_tokens(early->floats, 3);
  ASSERT_EQ(lens->at(0, 0).size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lens->at(0, 0)[i].id, best[i].id);
    EXPECT_EQ(lens->at(0, 0)[i].probability, best[i].probability);
  }
  EXPECT_GT(best[0].probability, best[1].probability);
}

TEST_F(Helpers, AttributionsWithAFrozenNormSumToTheLogit) {
  for (const bool by_heads : {true, false}) {
    const auto parts = direct_attribution(*engine_, ids_, 11, 22, by_heads);
    ASSERT_TRUE(parts.ok()) << parts.error().to_string();
    EXPECT_EQ(parts->parts.size(), 1 + 3 * (by_heads ? 5 : 2));
    EXPECT_NEAR(parts->total, parts->logit, 1e-5 * std::max(1.0, std::abs(parts->logit)));
  }
  EXPECT_FALSE(direct_attribution(*engine_, ids_, 320).ok());
}

TEST_F(Helpers, ControlVectorsComeBackFromTheirFileAndSteer) {
  const ContrastPair pairs[] = {{ids_, other()}, {{5, 6, 7}, {5, 6, 8}}, {{9, 10}, {11, 10}}};
  const auto mean = contrast(*engine_, pairs, ContrastMethod::kMean);
  ASSERT_TRUE(mean.ok()) << mean.error().to_string();
  ASSERT_EQ(mean->directions.size(), 2U);  // layers 1 and 2
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "v.gguf";
  ASSERT_TRUE(save_control_vector(path, *mean).ok());
  const auto again = load_control_vector(path);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->directions, mean->directions);
  EXPECT_EQ(again->model_hint, mean->model_hint);
  const auto line =
      edits_from_line("layers[*].layer_output += 2 * " + path.string(), TensorFiles::kAllowed);
  ASSERT_TRUE(line.ok()) << line.error().to_string();
  EXPECT_EQ(logits(*line), logits(steer(*mean, 2)));
  EXPECT_NE(logits(*line), logits());
  EXPECT_FALSE(load_control_vector(test::data("models/mini-4k/model.safetensors")).ok());
}

TEST_F(Helpers, ThePrincipalComponentPointsFromNegativeToPositive) {
  const ContrastPair pairs[] = {
      {{5, 6, 7}, {5, 6, 8}}, {{9, 10, 7}, {9, 10, 8}}, {{3, 4, 7}, {3, 4, 8}}};
  const auto vector = contrast(*engine_, pairs);
  ASSERT_TRUE(vector.ok());
  for (const auto& [layer, direction] : vector->directions) {
    double length = 0;
    for (const float x : direction) length += static_cast<double>(x) * static_cast<double>(x);
    EXPECT_NEAR(length, 1, 1e-5);
    size_t ahead = 0;
    for (const ContrastPair& pair : pairs) {
      double along = 0;
      for (const auto& [ids, sign] : {std::pair{pair.positive, 1.0}, {pair.negative, -1.0}}) {
        Trace trace(*engine_, ids);
        const auto key =
            trace.read(kValues.layers[static_cast<int32_t>(layer)].layer_output.at(kLast));
        const Traced traced = run(trace);
        for (size_t i = 0; i < direction.size(); ++i)
          along +=
              sign * static_cast<double>(direction[i]) * static_cast<double>(traced[key].floats[i]);
      }
      ahead += along > 0 ? 1 : 0;
    }
    EXPECT_GE(ahead, 2U);
  }
  EXPECT_FALSE(contrast(*engine_, std::span(pairs, 1)).ok());
  EXPECT_FALSE(contrast(*engine_, {}).ok());
}

TEST_F(Helpers, HeadScoresAreMeansOfThePattern) {
  const std::vector<TokenId> repeated{5, 6, 7, 8, 5, 6, 7};
  const auto induction = head_scores(*engine_, repeated, HeadScore::kInduction);
  ASSERT_TRUE(induction.ok());
  EXPECT_EQ(induction->shape, (std::vector<uint64_t>{3, 4}));
  Trace trace(*engine_, repeated);
  const auto key = trace.read(kValues.layers[1].self_attn.attention_probabilities);
  const auto p = run(trace)[key].floats;
  const size_t n = repeated.size();
  const auto at = [&](size_t h, size_t q, size_t k) {
    return static_cast<double>(p[(h * n + q) * n + k]);
  };
  for (size_t h = 0; h < 4; ++h)
    EXPECT_FLOAT_EQ(induction->floats[4 + h],
                    static_cast<float>((at(h, 4, 1) + at(h, 5, 2) + at(h, 6, 3)) / 3));
  EXPECT_FALSE(head_scores(*engine_, {5, 6, 7}, HeadScore::kInduction).ok());
}

TEST_F(Helpers, ARunThatStopsIsTheRunThatWasEditedThere) {
  Live live(*engine_, ids_);
  auto stream = live.run_until(kValues.layers[0].layer_output);
  ASSERT_TRUE(stream.ok()) << stream.error().to_string();
  EXPECT_EQ(stream->copy(), read(kValues.layers[0].layer_output));
  stream->row(5).fill(0.25F);
  auto pattern = live.run_until(kValues.layers[1].self_attn.attention_probabilities);
  ASSERT_TRUE(pattern.ok()) << pattern.error().to_string();
  Edits first;
  first += kValues.layers[0].layer_output.at(5) = 0.25F;
  EXPECT_EQ(pattern->copy(), read(kValues.layers[1].self_attn.attention_probabilities, first));
  pattern->head(2).fill(0);
  Read wanted;
  wanted.value = kValues.logits;
  const auto traced = live.finish({wanted});
  ASSERT_TRUE(traced.ok()) << traced.error().to_string();
  first += kValues.layers[1].self_attn.attention_probabilities.head(2) = 0.0F;
  EXPECT_EQ(traced->of(0).floats, logits(first));
}

TEST_F(Helpers, ARunStopsWithinSkippedLayersToo) {
  const Edits skip{skip_layers(0, 1)};
  Live live(*engine_, ids_, skip);
  for (const ValueRef& value :
       {kValues.layers[1].layer_mid.ref(), kValues.layers[1].layer_output.ref(),
        kValues.layers[2].layer_mid.ref()}) {
    const auto there = live.run_until(value);
    ASSERT_TRUE(there.ok()) << there.error().to_string();
    EXPECT_EQ(there->copy(), read(value, skip)) << value.to_string();
  }
  const auto traced = live.finish({{kValues.logits}});
  ASSERT_TRUE(traced.ok()) << traced.error().to_string();
  EXPECT_EQ(traced->of(0).floats, logits(skip));
}

TEST_F(Helpers, ARunDoesNotGoBack) {
  Live live(*engine_, ids_);
  ASSERT_TRUE(live.run_until(kValues.layers[1].layer_mid).ok());
  const auto back = live.run_until(kValues.layers[1].layer_input);
  ASSERT_FALSE(back.ok());
  const auto message = back.error().to_string();
  EXPECT_NE(message.find("layers[1].layer_mid"), std::string::npos) << message;
  EXPECT_NE(message.find("layers[1].layer_input"), std::string::npos) << message;
  EXPECT_TRUE(live.run_until(kValues.final_norm_output).ok());
}

}  // namespace
}  // namespace phidias
