// Gradients of runs whose edits depend on what they meet.
#include <cmath>

#include "small_model.h"

namespace phidias {
namespace {

constexpr size_t kWidth = 64;

std::vector<float> wave(size_t size, float phase) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = std::sin(phase + 0.7F * static_cast<float>(i));
  return values;
}

class EditGradient : public test::SmallModel {
 protected:
  struct Result {
    double metric = 0;
    std::vector<float> gradient;
  };
  Result at(const Edits& edits, const std::vector<float>& step, double size) {
    Trace trace(*engine_, ids_);
    // The step goes first: the edits see what it makes.
    if (!step.empty()) {
      const Tensor whole = Tensor::of({ids_.size(), kWidth}, step);
      trace.edit(kValues.layers[0].layer_input += size * Operand(whole));
    }
    trace.edit(edits);
    const auto key = trace.grad(kValues.token_embeddings);
    trace.metric(logit_difference(11, 22) + 0.5 * log_prob(9, Positions({3, 7, -1})));
    const Traced traced = run(trace);
    return {traced.metric, traced.entries.empty() ? std::vector<float>() : traced[key].floats};
  }
  static double norm(const std::vector<float>& x) {
    double sum = 0;
    for (const float entry : x) sum += double{entry} * double{entry};
    return std::sqrt(sum);
  }

  // Along the gradient the metric climbs by its norm. Logits are floats of size 10, so what their
  // rounding makes of a step of 2e-2 is 1e-4, and the third order is below that.
  void expect_slope(const Edits& edits) {
    const Result here = at(edits, {}, 0);
    ASSERT_EQ(here.gradient.size(), ids_.size() * kWidth);
    const double length = norm(here.gradient);
    ASSERT_GT(length, 0.01);
    std::vector<float> direction = here.gradient;
    for (float& entry : direction) entry = static_cast<float>(entry / length);
    constexpr double kStep = 2e-3;
    const double slope =
        (at(edits, direction, kStep).metric - at(edits, direction, -kStep).metric) / (2 * kStep);
    EXPECT_NEAR(slope, length, 0.01 * length);
    // The edits matter: without them the gradient is another one.
    const std::vector<float> plain = at({}, {}, 0).gradient;
    double difference = 0;
    for (size_t i = 0; i < plain.size(); ++i)
      difference += std::pow(double{plain[i]} - double{here.gradient[i]}, 2);
    EXPECT_GT(std::sqrt(difference), 0.02 * length);
  }

  const LayerValues layer_ = kValues.layers[1];
};

TEST_F(EditGradient, PassesAClampWhereItDoesNotHold) {
  expect_slope({layer_.layer_output.clamp(-0.5, 0.6),
                kValues.layers[0].mlp.mlp_neurons.at(Positions::range(2)).clamp(0, 0.05)});
}

TEST_F(EditGradient, PassesSteeringThatKeepsTheNorm) {
  expect_slope({steer(0, Tensor::of({kWidth}, wave(kWidth, 1)), 2, {}, true),
                steer(1, Tensor::of({kWidth}, wave(kWidth, 2)), -1.5, kLast, true)});
}

TEST_F(EditGradient, PassesAConditionAtThePositionsWhereItHolds) {
  const Tensor probe = Tensor::of({kWidth}, wave(kWidth, 0));
  const auto stream = read(layer_.layer_mid);
  size_t fired = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    double sum = 0;
    for (size_t c = 0; c < kWidth; ++c)
      sum += double{stream[i * kWidth + c]} * double{probe.floats[c]};
    fired += sum > 0 ? 1 : 0;
  }
  ASSERT_GT(fired, 0U);
  ASSERT_LT(fired, ids_.size());
  expect_slope({(layer_.layer_mid *= -0.5).when(probe, 0)});
}

TEST_F(EditGradient, PassesTheFeaturesOfAnAutoencoder) {
  Autoencoder small;
  small.encoder = Tensor::of({8, kWidth}, wave(8 * kWidth, 3));
  small.encoder_bias = Tensor::of({8}, wave(8, 1));
  small.decoder = Tensor::of({8, kWidth}, wave(8 * kWidth, 5));
  for (float& entry : small.decoder.floats) entry *= 0.1F;
  small.decoder_bias = Tensor::of({kWidth}, wave(kWidth, 2));
  for (const bool centred : {false, true}) {
    small.centred = centred;
    const auto autoencoder = std::make_shared<const Autoencoder>(small);
    std::vector<FeatureEdit> features;
    for (uint32_t j = 0; j < 8; ++j) {
      const auto kind = static_cast<FeatureEdit::Kind>(j % 3);
      features.push_back({j, kind, 0.75});
    }
    expect_slope({edit_sae(layer_.layer_output, autoencoder, features)});
    features.resize(5);
    expect_slope(
        {edit_sae(layer_.layer_output.at(Positions::range(3)), autoencoder, features, false)});
  }
}

TEST_F(EditGradient, PassesRowsThatAreBroughtBackToOne) {
  const auto pattern = layer_.self_attn.attention_probabilities;
  expect_slope(
      {(pattern.head(1).key({1, 2}) *= 3.0).renormalized(),
       (kValues.layers[2].self_attn.attention_probabilities.key(4) = 0.0F).renormalized()});
}

TEST_F(EditGradient, GoesRoundSkippedLayers) {
  expect_slope({skip_layers(1, 2)});
  Edit some = skip_layers(0, 1);
  some.value.selection.at = Positions({2, 5, -1});
  expect_slope({some, layer_.layer_output.at(5) *= 1.5});
}

TEST_F(EditGradient, OfTheInputOfSkippedLayersIsTheWholeOfIt) {
  // Nothing but the skip reaches the metric: both ends of it have one gradient.
  Trace trace(*engine_, ids_);
  trace.edit(skip_layers(1, 1));
  const auto in = trace.grad(kValues.layers[1].layer_input);
  const auto out = trace.grad(kValues.layers[1].layer_output);
  const auto inside = trace.grad(kValues.layers[1].mlp.mlp_output);
  trace.metric(logit_difference(11, 22));
  const Traced traced = run(trace);
  EXPECT_EQ(traced[in].floats, traced[out].floats);
  EXPECT_GT(norm(traced[in].floats), 0);
  EXPECT_EQ(norm(traced[inside].floats), 0);
}

TEST_F(EditGradient, IsRefusedForFunctionsAndCopiesByName) {
  const auto error = [&](Edit edit) {
    Trace trace(*engine_, ids_);
    trace.edit(std::move(edit));
    trace.grad(kValues.token_embeddings);
    trace.metric(logit(3));
    return error_of(trace);
  };
  EXPECT_NE(error(on_live(layer_.layer_mid, [](const View&, const Where&) {})).find("a function"),
            std::string::npos);
  EXPECT_NE(error((layer_.self_attn.attention_keys.at(2) *= 2.0).call()).find("scope"),
            std::string::npos);
}

TEST_F(EditGradient, CountsWhatItKeepsInTheBudget) {
  const auto plan_of = [&](const Edits& edits, uint64_t max_bytes) {
    Trace trace(*engine_, ids_, {.max_bytes = max_bytes});
    trace.edit(edits);
    trace.grad(kValues.layers[2].layer_output.at(kLast));
    trace.metric(logit(3));
    return trace.plan();
  };
  const Edits clamp{layer_.layer_output.clamp(-0.5, 0.6)};
  const uint64_t streams = 4 * ids_.size() * kWidth * sizeof(float);
  const uint64_t plain = streams + kWidth * sizeof(float);
  EXPECT_TRUE(plan_of({}, plain).ok());
  const auto refused = plan_of(clamp, plain);
  ASSERT_FALSE(refused.ok());
  const uint64_t needed = plain + ids_.size() * kWidth * sizeof(float);
  EXPECT_NE(refused.error().message.find(std::to_string(needed) + " bytes"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(plan_of(clamp, needed).ok());
}

}  // namespace
}  // namespace phidias
