// Variations of a run, and the sweeps that are made of them: patching, causal tracing, ablation.
#include "phidias/patching.h"
#include "phidias/variations.h"
#include "small_model.h"

namespace phidias {
namespace {

class Sweeps : public test::SmallModel {
 protected:
  // The metric of a whole run.
  double whole(const Edits& edits) {
    VariationOptions options;
    options.edits = edits;
    const auto run = run_variations(*engine_, ids_, {}, metric_, options);
    EXPECT_TRUE(run.ok()) << run.error().to_string();
    return run.ok() ? run->base : 0;
  }
  // What edits of every kind and place there is.
  std::vector<Edits> variety() const {
    const auto& layer = kValues.layers[1];
    const auto& attention = layer.self_attn;
    std::vector<Edits> all;
    all.push_back({});
    all.push_back({layer.layer_input.at(3) *= 1.5});
    all.push_back({layer.layer_mid.at({5, 8}) += 0.5F});
    all.push_back({layer.layer_output.at(kLast) = 0.25F});
    all.push_back({layer.mlp.mlp_neurons.neuron(3).at(Positions::range(6)) += 2.0F});
    all.push_back({layer.mlp.mlp_output.at(2) = 0.0F});
    all.push_back({attention.attention_head_outputs.head(2) = 0.0F});
    all.push_back({attention.attention_queries.head(1).at(9) *= -1.0});
    all.push_back({attention.attention_keys.at(2) *= -1.0});
    all.push_back({(attention.attention_values.at(2) *= 3.0).call(Positions::range(6))});
    all.push_back({attention.attention_scores.query(7).key(4) = kHidden});
    all.push_back({(attention.attention_scores.query(4) = 0.0F).lifted()});
    all.push_back({uniform(attention.attention_probabilities.head(0).query(Positions::range(8)))});
    all.push_back({kValues.token_embeddings.at(4) *= 2.0});
    all.push_back({kValues.input_ids.at(5) = 17});
    all.push_back({kValues.attention_mask.at(3) = 0});
    all.push_back({kValues.final_norm_output.at(kLast) *= 0.5});
    all.push_back({kValues.logits.channels({11}).at(kLast) += 1.0F});
    all.push_back({kValues.layers[-1].layer_output.at(6) += 1.0F, layer.layer_mid.at(9) *= 2.0});
    all.push_back({skip_layers(1, 2)});
    return all;
  }

  Metric metric_ = logit_difference(11, 22) + 0.5 * log_prob(9, Positions({3, 7, -1}));
};

TEST_F(Sweeps, AVariationHasTheBitsOfAWholeRun) {
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    engine_ = start(load(), {.numerics = numerics});
    Edits base;
    base += kValues.layers[0].layer_output.at(5) *= 1.25;
    base += kValues.layers[1].layer_input.at(8) += 0.125F;
    for (const Edits& first : {Edits(), base}) {
      const auto variations = variety();
      VariationOptions options;
      options.edits = first;
      const auto run = run_variations(*engine_, ids_, variations, metric_, options);
      ASSERT_TRUE(run.ok()) << run.error().to_string();
      EXPECT_EQ(run->base, whole(first));
      for (size_t i = 0; i < variations.size(); ++i) {
        Edits both = first;
        both += variations[i];
        EXPECT_EQ(run->metric[i], whole(both)) << "variation " << i;
        if (i > 0) {
          EXPECT_NE(run->metric[i], run->base) << "variation " << i;
        }
      }
    }
  }
}

// What skipped layers hand through enters before the layer where a variation begins.
TEST_F(Sweeps, VariationsWithinSkippedLayersBeginBeforeThem) {
  VariationOptions options;
  options.edits = {skip_layers(0, 1)};
  const std::vector<Edits> variations{{kValues.layers[1].self_attn.attention_values.at(3) *= 2.0},
                                      {kValues.layers[1].layer_output.at(5) += 0.5F}};
  const auto run = run_variations(*engine_, ids_, variations, metric_, options);
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  for (size_t i = 0; i < variations.size(); ++i) {
    Edits both = options.edits;
    both += variations[i];
    EXPECT_EQ(run->metric[i], whole(both)) << i;
  }
}

TEST_F(Sweeps, OnlyWhatAnEditCanChangeIsRunAgain) {
  const uint64_t once = 3 * ids_.size();
  const auto rows = [&](const Edit& edit) {
    const Edits variations[] = {{edit}};
    const auto run = run_variations(*engine_, ids_, variations, metric_);
    EXPECT_TRUE(run.ok()) << run.error().to_string();
    return run.ok() ? run->layer_rows - once : 0;
  };
  EXPECT_EQ(rows(kValues.layers[2].layer_input.at(kLast) = 0.0F), 1U);
  EXPECT_EQ(rows(kValues.layers[1].layer_input.at(9) = 0.0F), 2 * 3U);
  EXPECT_EQ(rows(kValues.layers[0].layer_output = 0.0F), once);
  EXPECT_EQ(rows(kValues.logits.at(kLast) *= 2.0), 0U);
}

TEST_F(Sweeps, HowVariationsShareTheirStepsChangesNothing) {
  const auto variations = variety();
  const auto want = run_variations(*engine_, ids_, variations, metric_);
  ASSERT_TRUE(want.ok());
  const uint64_t page = engine_->memory().cache_per_position * 16;
  // Short steps; short pages, and a cache in which three forks have room beside the first run.
  for (const EngineOptions& options : {EngineOptions{.numerics = Numerics::kExact, .step_rows = 5},
                                       EngineOptions{.numerics = Numerics::kExact,
                                       .cache_budget = page * 4,
                                       .step_rows = 64,
                                       .page_positions = 16}}) {
    engine_ = start(load(), options);
    std::vector<Edits> fitting = variations;
    if (options.step_rows < ids_.size()) fitting[11] = {};  // a lifted mask needs one pass
    const auto run = run_variations(*engine_, ids_, fitting, metric_);
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    for (size_t i = 0; i < fitting.size(); ++i) {
      if (fitting[i] == variations[i]) {
        EXPECT_EQ(run->metric[i], want->metric[i]) << "variation " << i;
      }
    }
    EXPECT_EQ(engine_->cache_bytes_in_use(), 0U);
  }
}

TEST_F(Sweeps, WhatDoesNotFitIsAnError) {
  const auto error = [&](const Edits& edits, const Metric& metric) {
    const Edits variations[] = {edits};
    const auto run = run_variations(*engine_, ids_, variations, metric);
    return run.ok() ? std::string() : run.error().to_string();
  };
  EXPECT_NE(error({kValues.layers[7].layer_output = 0.0F}, metric_), "");
  EXPECT_NE(error({kValues.layers[1].layer_output.at(99) = 0.0F}, metric_), "");
  EXPECT_NE(error({skip_layers(2, 1)}, metric_), "");
  EXPECT_NE(error({}, Metric()), "");
  EXPECT_NE(error({}, logit(100000)), "");
  EXPECT_NE(error({}, dot(kValues.layers[0].layer_output.at(kLast), std::vector<float>(64))), "");
  VariationOptions options;
  options.progress = [](size_t, size_t) { return false; };
  const Edits variations[] = {{kValues.layers[1].layer_output = 0.0F}};
  const auto cancelled = run_variations(*engine_, ids_, variations, metric_, options);
  ASSERT_FALSE(cancelled.ok());
  EXPECT_EQ(cancelled.error().code, Code::kCancelled);
}

TEST_F(Sweeps, EachCellIsThePatchedRun) {
  for (const SweepAxis axis : {SweepAxis::kPositions, SweepAxis::kHeads, SweepAxis::kLayers}) {
    SweepOptions options;
    options.axis = axis;
    const auto sweep =
        patch_sweep(*engine_, other(), ids_, ValueId::kAttentionHeadOutputs, metric_, options);
    ASSERT_TRUE(sweep.ok()) << sweep.error().to_string();
    EXPECT_EQ(sweep->layers, 3U);
    EXPECT_EQ(sweep->columns, axis == SweepAxis::kPositions ? ids_.size()
                              : axis == SweepAxis::kHeads   ? 4U
                                                            : 1U);
    EXPECT_EQ(sweep->base, whole({}));
    Trace clean(*engine_, other());
    const auto key = clean.read(kValues.layers[1].self_attn.attention_head_outputs);
    const Tensor source = run(clean)[key];
    for (size_t column = 0; column < sweep->columns; ++column) {
      Tensor part = source;
      auto place = kValues.layers[1].self_attn.attention_head_outputs.ref();
      Edits edits;
      if (axis == SweepAxis::kPositions) {
        const auto at = static_cast<int64_t>(column);
        const std::pair<int64_t, int64_t> map[] = {{at, at}};
        edits = patch(place, source, map);
      } else if (axis == SweepAxis::kHeads) {
        part.floats.clear();
        part.shape[2] = 1;
        const size_t dim = source.shape[3];
        for (size_t s = 0; s < ids_.size(); ++s) {
          const auto from = source.floats.begin() + static_cast<ptrdiff_t>((s * 4 + column) * dim);
          part.floats.insert(part.floats.end(), from, from + static_cast<ptrdiff_t>(dim));
        }
        place.selection.heads = {static_cast<int32_t>(column)};
        edits += make_edit(place, EditOp::kSet, Operand(part));
      } else {
        edits += make_edit(place, EditOp::kSet, Operand(part));
      }
      EXPECT_EQ(sweep->at(1, column), whole(edits)) << "column " << column;
    }
  }
}

TEST_F(Sweeps, ACleanStreamAtEveryPositionGivesTheCleanMetric) {
  SweepOptions options;
  options.axis = SweepAxis::kLayers;
  const auto sweep = patch_sweep(*engine_, other(), ids_, ValueId::kLayerOutput, metric_, options);
  ASSERT_TRUE(sweep.ok()) << sweep.error().to_string();
  for (size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(sweep->at(layer, 0), sweep->clean);
    EXPECT_EQ(sweep->recovered(layer, 0), 1);
  }
  EXPECT_NE(sweep->clean, sweep->base);
}

TEST_F(Sweeps, CausalTracingRestoresWhatNoiseTookAway) {
  SweepOptions options;
  options.edits += noise(kValues.token_embeddings.at(Positions::range(2, 5)), 0.5, 7);
  const auto sweep = patch_sweep(*engine_, ids_, ids_, ValueId::kLayerOutput, metric_, options);
  ASSERT_TRUE(sweep.ok()) << sweep.error().to_string();
  EXPECT_EQ(sweep->clean, whole({}));
  EXPECT_EQ(sweep->base, whole(options.edits));
  EXPECT_NE(sweep->clean, sweep->base);
  // Positions before the noise hold what they held.
  EXPECT_EQ(sweep->at(0, 0), sweep->base);
  EXPECT_NE(sweep->at(0, 3), sweep->base);
  // All layers at once, at one position: as restoring the first of them and those behind it.
  options.window = 5;
  const auto wide = patch_sweep(*engine_, ids_, ids_, ValueId::kLayerOutput, metric_, options);
  ASSERT_TRUE(wide.ok());
  for (size_t column = 0; column < wide->columns; ++column)
    EXPECT_EQ(wide->at(0, column), wide->at(2, column));
}

TEST_F(Sweeps, AblationTakesOutTheHeadThatItNames) {
  SweepOptions options;
  options.axis = SweepAxis::kHeads;
  const auto value = ValueId::kAttentionHeadOutputs;
  const auto zeroed = ablation_sweep(*engine_, ids_, value, Ablation::kZero, metric_, options);
  ASSERT_TRUE(zeroed.ok()) << zeroed.error().to_string();
  for (int32_t head = 0; head < 4; ++head) {
    EXPECT_EQ(zeroed->at(2, static_cast<size_t>(head)),
              whole({kValues.layers[2].self_attn.attention_premix.head(head) = 0.0F}));
  }
  const auto mean = ablation_sweep(*engine_, ids_, value, Ablation::kMean, metric_, options);
  ASSERT_TRUE(mean.ok());
  Edit edit = kValues.layers[2].self_attn.attention_head_outputs.head(1) = 0.0F;
  edit.op = EditOp::kMean;
  edit.tensor = std::make_shared<const Tensor>([&] {
    Trace trace(*engine_, ids_);
    const auto key = trace.read(kValues.layers[2].self_attn.attention_head_outputs.head(1));
    return run(trace)[key];
  }());
  EXPECT_EQ(mean->at(2, 1), whole({edit}));
}

TEST_F(Sweeps, ValuesThatHaveNoSuchPlacesAreRefused) {
  const auto refused = [&](ValueId value, SweepAxis axis) {
    SweepOptions options;
    options.axis = axis;
    return !patch_sweep(*engine_, other(), ids_, value, metric_, options).ok();
  };
  EXPECT_TRUE(refused(ValueId::kLayerOutput, SweepAxis::kHeads));
  EXPECT_TRUE(refused(ValueId::kAttentionScores, SweepAxis::kPositions));
  EXPECT_TRUE(refused(ValueId::kLogits, SweepAxis::kPositions));
  EXPECT_TRUE(refused(ValueId::kAttentionHeadContributions, SweepAxis::kHeads));
  EXPECT_FALSE(refused(ValueId::kAttentionKeys, SweepAxis::kHeads));
  EXPECT_FALSE(patch_sweep(*engine_, {5, 6}, ids_, ValueId::kLayerOutput, metric_).ok());
  EXPECT_FALSE(sweep_axis_from_name("tokens").ok());
  EXPECT_EQ(*sweep_axis_from_name("heads"), SweepAxis::kHeads);
  EXPECT_FALSE(ablation_from_name("median").ok());
}

}  // namespace
}  // namespace phidias
