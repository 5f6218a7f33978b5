#include "gradient/objective.h"

#include <gtest/gtest.h>

#include <cmath>

#include "random_model.h"

namespace phidias::test {
namespace {

TEST(Objective, OutputsAreThePositionsWhoseLogitsAreReadOnceEach) {
  ObjectiveTerm a, b, probe;
  a.position = 5;
  b.position = 2;
  probe.kind = ObjectiveTerm::Kind::kDot;
  probe.position = 4;
  const Objective objective({a, b, a, probe});
  EXPECT_EQ(std::vector<uint32_t>(objective.outputs().begin(), objective.outputs().end()),
            (std::vector<uint32_t>{2, 5}));
}

TEST(Objective, WhatDoesNotFitTheRunIsAnErrorThatNamesTheTerm) {
  const ModelSpec spec = small_spec(32);
  const auto fails = [&](const ObjectiveTerm& term) {
    const Status status = Objective({ObjectiveTerm(), term}).check(spec, 4);
    return !status.ok() && status.error().place.item == "term 1";
  };
  ObjectiveTerm term;
  EXPECT_TRUE(Objective({term}).check(spec, 4).ok());
  EXPECT_FALSE(Objective().check(spec, 4).ok());
  term.position = 4;
  EXPECT_TRUE(fails(term));
  term = {};
  term.token = 53;
  EXPECT_TRUE(fails(term));
  term.token = -1;
  EXPECT_TRUE(fails(term));
  term = {};
  term.kind = ObjectiveTerm::Kind::kKl;
  term.vector.assign(52, 0.1F);
  EXPECT_TRUE(fails(term));
  term = {};
  term.kind = ObjectiveTerm::Kind::kDot;
  term.vector.assign(32, 1.0F);
  EXPECT_TRUE(Objective({term}).check(spec, 4).ok());
  term.offset = 1;
  EXPECT_TRUE(fails(term));
  term.offset = SIZE_MAX;
  EXPECT_TRUE(fails(term));
  term.offset = 0;
  term.layer = 3;
  EXPECT_TRUE(fails(term));
  term.layer = 0;
  term.site = Site::kAttentionScores;
  EXPECT_TRUE(fails(term));
}

TEST(Objective, ADivergenceFromTheModelsOwnDistributionIsZeroWithoutGradient) {
  const std::vector<float> logits = {0.5F, -1.0F, 2.0F, 0.0F};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  ObjectiveTerm term;
  term.kind = ObjectiveTerm::Kind::kKl;
  for (const float logit : logits)
    term.vector.push_back(static_cast<float>(std::exp(double{logit}) / sum));
  const Objective objective({term});
  std::vector<float> gradient(4, 0.0F);
  objective.add_logits_gradient(0, logits, gradient);
  for (const float entry : gradient) EXPECT_NEAR(entry, 0, 1e-7);
  EXPECT_NEAR(objective.logits_part(0, logits), 0, 1e-7);
}

TEST(Objective, LogProbabilitiesOfATextAreOneTermAToken) {
  const std::vector<int32_t> tokens = {4, 5, 6, 7};
  const Objective objective = weighted_log_probs(tokens, std::vector<float>{0, 1, 0.5F});
  ASSERT_EQ(objective.terms().size(), 2U);
  EXPECT_EQ(objective.terms()[0].position, 1U);
  EXPECT_EQ(objective.terms()[0].token, 6);
  EXPECT_EQ(objective.terms()[1].token, 7);
  EXPECT_EQ(objective.terms()[1].weight, 0.5);
  const std::vector<float> even(10, 3.0F);
  EXPECT_NEAR(objective.logits_part(1, even), -std::log(10.0), 1e-12);
}

}  // namespace
}  // namespace phidias::test
