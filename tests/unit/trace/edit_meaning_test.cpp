// What an edit does and what it leaves alone.
#include <cmath>

#include "phidias/lens.h"
#include "small_model.h"

namespace phidias {
namespace {

constexpr size_t kHeads = 4;
constexpr size_t kWidth = 64;
constexpr size_t kVocab = 320;

Tensor numbers(std::vector<uint64_t> shape, std::vector<float> values) {
  return Tensor::of(std::move(shape), std::move(values));
}
Tensor ramp(size_t size) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>(i) / static_cast<float>(size) - 0.5F;
  return numbers({size}, std::move(values));
}

class EditMeaning : public test::SmallModel {
 protected:
  size_t n() const { return ids_.size(); }
  static bool equal_rows(const std::vector<float>& a, const std::vector<float>& b, size_t row,
                         size_t width) {
    return std::equal(a.begin() + static_cast<ptrdiff_t>(row * width),
                      a.begin() + static_cast<ptrdiff_t>((row + 1) * width),
                      b.begin() + static_cast<ptrdiff_t>(row * width));
  }
  const AttentionValues attention_ = kValues.layers[1].self_attn;
};

TEST_F(EditMeaning, HiddenScoresStayHiddenUnlessTheMaskIsLifted) {
  Edits edits;
  edits += attention_.attention_scores = 0.0F;
  const auto kept = read(attention_.attention_probabilities, edits);
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t q = 0; q < n(); ++q) {
      const size_t visible = std::min<size_t>(q + 1, 7);  // the model's window
      for (size_t k = 0; k < n(); ++k) {
        const bool seen = k <= q && k + 7 > q;
        EXPECT_FLOAT_EQ(kept[(h * n() + q) * n() + k],
                        seen ? 1.0F / static_cast<float>(visible) : 0.0F);
      }
    }
  }
  Edits lifted;
  lifted += (attention_.attention_scores = 0.0F).lifted();
  for (const float p : read(attention_.attention_probabilities, lifted))
    EXPECT_FLOAT_EQ(p, 1.0F / static_cast<float>(n()));
}

TEST_F(EditMeaning, AHiddenKeyIsAsIfItWereMasked) {
  Edits edits;
  edits += attention_.attention_scores.key(2).query(Positions::range(3)) = kHidden;
  const auto probabilities = read(attention_.attention_probabilities, edits);
  for (size_t i = 0; i < kHeads * n(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < n(); ++k) sum += static_cast<double>(probabilities[i * n() + k]);
    EXPECT_NEAR(sum, 1, 1e-6);
    if (i % n() >= 3) {
      EXPECT_EQ(probabilities[i * n() + 2], 0.0F);
    }
  }
}

TEST_F(EditMeaning, AQueryWithoutAnyKeyGivesZeroAndIsReported) {
  Trace trace(*engine_, ids_);
  const auto probabilities = trace.read(attention_.attention_probabilities.query(4));
  const auto heads = trace.read(attention_.attention_head_outputs.at(4));
  trace.edit(attention_.attention_scores.query(4) = kHidden);
  const Traced traced = run(trace);
  for (const float p : traced[probabilities].floats) EXPECT_EQ(p, 0.0F);
  for (const float x : traced[heads].floats) EXPECT_EQ(x, 0.0F);
  EXPECT_EQ(traced.all_hidden, kHeads);
}

TEST_F(EditMeaning, OnlyHidesEveryOtherKeyAndUniformSpreadsOverTheVisibleOnes) {
  Edits edits;
  edits += only(attention_.attention_scores.key({0, 3}).query(Positions::range(5, 7)));
  const auto kept = read(attention_.attention_probabilities, edits);
  EXPECT_EQ(kept[5 * n() + 4], 0.0F);
  EXPECT_FLOAT_EQ(kept[5 * n() + 0] + kept[5 * n() + 3], 1);
  Edits even;
  even += uniform(attention_.attention_probabilities.head(1));
  const auto spread = read(attention_.attention_probabilities, even);
  EXPECT_FLOAT_EQ(spread[(n() + 9) * n() + 5], 1.0F / 7);
  EXPECT_EQ(spread[(n() + 9) * n() + 2], 0.0F);
}

TEST_F(EditMeaning, AHeadIsSilencedInItsPatternItsOutputAndItsPremixAlike) {
  Edits pattern;
  pattern += attention_.attention_probabilities.head(2) = 0.0F;
  Edits output;
  output += attention_.attention_head_outputs.head(2) = 0.0F;
  Edits premix;
  premix += zero(attention_.attention_premix.head(2));
  const auto expected = read(attention_.attention_output, output);
  EXPECT_EQ(read(attention_.attention_output, pattern), expected);
  EXPECT_EQ(read(attention_.attention_output, premix), expected);
  EXPECT_NE(read(attention_.attention_output), expected);
}

TEST_F(EditMeaning, KeysChangedForACallAreNotWhatTheCacheHolds) {
  Edits cached;
  cached += attention_.attention_values.head(0).at({2}) *= -1.0;
  Edits called;
  called += (attention_.attention_values.head(0).at({2}) *= -1.0).call();
  EXPECT_EQ(logits(called), logits(cached));  // every query sees it
  EXPECT_EQ(read(attention_.attention_values, called), read(attention_.attention_values));
  EXPECT_NE(read(attention_.attention_values, cached), read(attention_.attention_values));
  Edits once;
  once += (attention_.attention_values.head(0).at({2}) *= -1.0).call(5);
  const auto plain = read(attention_.attention_head_outputs);
  const auto seen = read(attention_.attention_head_outputs, once);
  for (size_t row = 0; row < n(); ++row)
    EXPECT_EQ(equal_rows(plain, seen, row, kWidth), row != 5) << row;
}

TEST_F(EditMeaning, WritingTheStreamReachesBothBranchesWritingTheMlpsInputOne) {
  const auto layer = kValues.layers[1];
  Edits stream;
  stream += layer.layer_mid.at(4) += Operand(ramp(kWidth));
  Edits branch;
  branch += layer.mlp_input.at(4) += Operand(ramp(kWidth));
  const auto before = read(layer.layer_mid);
  const auto after = read(layer.layer_mid, stream);
  for (size_t c = 0; c < kWidth; ++c)
    EXPECT_EQ(after[4 * kWidth + c], before[4 * kWidth + c] + ramp(kWidth).floats[c]);
  EXPECT_EQ(read(layer.layer_mid, branch), before);
  EXPECT_NE(read(layer.mlp.mlp_output, branch), read(layer.mlp.mlp_output));
}

TEST_F(EditMeaning, EditsOfOneValueApplyInOrderAndReadsSeeThemUnlessAskedBefore) {
  const auto value = kValues.layers[0].layer_output.channels({3});
  Trace trace(*engine_, ids_);
  const auto before = trace.read(value, Read::Moment::kBefore);
  const auto after = trace.read(value);
  trace.edit(value = 2.0F);
  trace.edit(value *= 3.0F);
  Edit first = value += 10.0F;
  first.order = -1;
  trace.edit(first);
  const Traced traced = run(trace);
  for (const float x : traced[after].floats) EXPECT_EQ(x, 6.0F);
  EXPECT_EQ(traced[before].floats, read(value));
  EXPECT_EQ(traced[before].shape, (std::vector<uint64_t>{1, n(), 1}));
}

TEST_F(EditMeaning, SkippedLayersHandTheStreamThrough) {
  const Edits edits{skip_layers(1, 2)};
  EXPECT_EQ(read(kValues.layers[2].layer_output, edits), read(kValues.layers[1].layer_input));
  EXPECT_EQ(read(kValues.layers[-1].layer_output, {skip_layers(0, -1)}),
            read(kValues.token_embeddings));
  // T19: with every layer skipped the model is the lens of its embeddings.
  const auto lens = project_on_vocab(*engine_, read(kValues.token_embeddings));
  ASSERT_TRUE(lens.ok());
  EXPECT_EQ(logits({skip_layers(0, -1)}), lens->floats);
}

TEST_F(EditMeaning, AssignedIdsGiveTheOtherPromptsLogits) {
  std::vector<TokenId> other = ids_;
  other[3] = 77;
  Edits edits;
  edits += kValues.input_ids.at(3) = 77;
  Trace trace(*engine_, other);
  const auto key = trace.read(kValues.logits);
  EXPECT_EQ(logits(edits), run(trace)[key].floats);
  for (const double wrong : {3.5, 1e30, -1e30, 320.0}) {
    Trace refused(*engine_, ids_);
    refused.edit(kValues.input_ids.at(3) = wrong);
    refused.read(kValues.logits);
    EXPECT_NE(error_of(refused).find("vocabulary"), std::string::npos) << wrong;
  }
}

TEST_F(EditMeaning, AMaskedPositionIsHiddenFromEveryQueryOfEveryLayer) {
  Edits edits;
  edits += kValues.attention_mask.at(1) = 0;
  for (int32_t layer = 0; layer < 3; ++layer) {
    const auto pattern = read(kValues.layers[layer].self_attn.attention_probabilities, edits);
    for (size_t i = 0; i < kHeads * n(); ++i) EXPECT_EQ(pattern[i * n() + 1], 0.0F);
  }
}

TEST_F(EditMeaning, PatchingAWholeLayerGivesTheOtherRunsLogits) {
  std::vector<TokenId> clean = ids_;
  clean[2] = 42;
  Trace source(*engine_, clean);
  const auto stream = source.read(kValues.layers[1].layer_output);
  const auto expected = source.read(kValues.logits);
  const Traced traced = run(source);
  std::vector<std::pair<int64_t, int64_t>> map;
  for (size_t i = 0; i < n(); ++i) map.emplace_back(i, i);
  EXPECT_EQ(logits(patch(kValues.layers[1].layer_output, traced[stream], map)),
            traced[expected].floats);
}

TEST_F(EditMeaning, SubspacesAreRemovedKeptAndSwapped) {
  const auto value = kValues.layers[1].layer_output;
  std::vector<float> direction(kWidth);
  direction[0] = 3;
  direction[5] = 4;
  const auto along = [&](const std::vector<float>& x, size_t row) {
    return (3 * static_cast<double>(x[row * kWidth]) +
            4 * static_cast<double>(x[row * kWidth + 5])) /
           5;
  };
  const auto plain = read(value);
  const auto removed = read(value, {project_out(value, numbers({kWidth}, direction))});
  const auto kept = read(value, {keep_only(value, numbers({kWidth}, direction))});
  Tensor source = ramp(kWidth);
  const auto swapped = read(value, {swap_subspace(value, numbers({kWidth}, direction), source)});
  for (size_t row = 0; row < n(); ++row) {
    EXPECT_NEAR(along(removed, row), 0, 1e-5);
    EXPECT_NEAR(along(kept, row), along(plain, row), 1e-5);
    EXPECT_NEAR(along(swapped, row), along(source.floats, 0), 1e-5);
    for (size_t c = 0; c < kWidth; ++c) {
      const size_t i = row * kWidth + c;
      EXPECT_NEAR(removed[i] + kept[i], plain[i], 1e-5);
      if (c != 0 && c != 5) {
        EXPECT_EQ(swapped[i], plain[i]);
      }
    }
  }
}

TEST_F(EditMeaning, SteeringKeepsTheNormWhereAskedAndConditionsAreEvaluatedPerPosition) {
  const auto norm = [&](const std::vector<float>& x, size_t row) {
    double sum = 0;
    for (size_t c = 0; c < kWidth; ++c)
      sum += static_cast<double>(x[row * kWidth + c]) * static_cast<double>(x[row * kWidth + c]);
    return std::sqrt(sum);
  };
  const auto value = kValues.layers[1].layer_output;
  const auto plain = read(value);
  const auto steered = read(value, {steer(1, ramp(kWidth), 4, {}, true)});
  for (size_t row = 0; row < n(); ++row) EXPECT_NEAR(norm(steered, row), norm(plain, row), 1e-5);
  std::vector<float> probe(kWidth);
  probe[7] = 1;
  Edits edits;
  edits += (value += 100.0F).when(numbers({kWidth}, probe), 0);
  const auto conditional = read(value, edits);
  for (size_t row = 0; row < n(); ++row) {
    const bool fires = plain[row * kWidth + 7] > 0;
    EXPECT_EQ(conditional[row * kWidth], plain[row * kWidth] + (fires ? 100.0F : 0.0F));
  }
}

TEST_F(EditMeaning, NoiseDependsOnSeedPositionAndChannelAlone) {
  const auto value = kValues.token_embeddings.at(Positions::range(2, 6));
  const Edits edits{noise(value, 0.5, 7)};
  const auto whole = read(kValues.token_embeddings, edits);
  EXPECT_EQ(read(kValues.token_embeddings, edits, {.chunk = 1}), whole);
  EXPECT_NE(read(kValues.token_embeddings, {noise(value, 0.5, 8)}), whole);
  const auto plain = read(kValues.token_embeddings);
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    const double d = static_cast<double>(whole[i]) - static_cast<double>(plain[i]);
    sum += d;
    squares += d * d;
  }
  EXPECT_NEAR(sum / (4.0 * kWidth), 0, 0.12);  // 4 standard errors
  EXPECT_NEAR(squares / (4.0 * kWidth), 0.25, 0.09);
}

TEST_F(EditMeaning, LowRankAddsAProductOfTwoMatrices) {
  const auto value = kValues.layers[0].self_attn.attention_queries.head(1).at(3);
  std::vector<float> a(16, 0.0F);
  a[2] = 2;  // picks entry 2
  std::vector<float> b(16, 0.0F);
  b[9] = 0.5F;  // puts it to entry 9
  const auto plain = read(value);
  const auto changed = read(value, {low_rank(value, numbers({1, 16}, a), numbers({16, 1}, b))});
  for (size_t i = 0; i < 16; ++i)
    EXPECT_FLOAT_EQ(changed[i], plain[i] + (i == 9 ? plain[2] : 0.0F));
}

TEST_F(EditMeaning, AnAutoencodersFeaturesAreChangedAndWhatItDoesNotSeeStays) {
  const size_t n = 64;
  Autoencoder sae;
  sae.encoder = {TensorType::kF32, {3, n}, std::vector<float>(3 * n), {}};
  sae.decoder = sae.encoder;
  for (size_t i = 0; i < 3 * n; ++i) {
    sae.encoder.floats[i] = std::sin(static_cast<float>(i));
    sae.decoder.floats[i] = std::cos(static_cast<float>(3 * i));
  }
  sae.encoder_bias = Tensor::of({3}, std::vector<float>{0.5F, -0.25F, 1000});
  sae.decoder_bias = Tensor::of({n}, std::vector<float>(n, 0.125F));
  const auto place = kValues.layers[1].layer_output.at({4, 6});
  const auto pointer = std::make_shared<const Autoencoder>(sae);
  const auto before = read(place);
  const auto edited = read(place, {edit_sae(place, pointer, {{2, FeatureEdit::Kind::kSet, 3}})});
  const auto rebuilt =
      read(place, {edit_sae(place, pointer, {{2, FeatureEdit::Kind::kScale, 0}}, false)});
  for (size_t row = 0; row < 2; ++row) {
    const auto x = std::span(before).subspan(row * n, n);
    std::vector<float> features(3);
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i)
        sum += static_cast<double>(sae.encoder.floats[j * n + i]) * static_cast<double>(x[i]);
      sum += static_cast<double>(sae.encoder_bias.floats[j]);
      features[j] = static_cast<float>(std::max(sum, 0.0));
    }
    EXPECT_GT(features[2], 500.0F);
    EXPECT_EQ(sae.encode(x), features);
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(edited[row * n + i], x[i] + (3 - features[2]) * sae.decoder.floats[2 * n + i],
                  1e-3);
      EXPECT_NEAR(
          rebuilt[row * n + i],
          0.125F + features[0] * sae.decoder.floats[i] + features[1] * sae.decoder.floats[n + i],
          1e-3);
    }
  }
  Trace wrong(*engine_, ids_);
  wrong.edit(edit_sae(place, pointer, {{3, FeatureEdit::Kind::kSet, 1}}));
  EXPECT_NE(error_of(wrong).find("feature 3"), std::string::npos);
  Trace narrow(*engine_, ids_);
  narrow.edit(edit_sae(kValues.layers[1].mlp.mlp_neurons, pointer, {}));
  EXPECT_NE(error_of(narrow), "");
}

TEST_F(EditMeaning, EditsInForceComeBeforeARunsOwnWhileTheyLive) {
  const auto& layer = engine_->model().layers[1];
  Edits outer;
  outer += layer.layer_output.at(3) = 1.0F;
  Edits own;
  own += layer.layer_output.at(3) *= 2.0;
  Edits both = outer;
  both += own;
  const auto plain = logits();
  const auto want = logits(both);
  {
    const auto guard = engine_->with(outer);
    EXPECT_EQ(logits(own), want);
    {
      const auto inner = engine_->with(own);
      EXPECT_EQ(logits(), want);
    }
    EXPECT_EQ(logits(own), want);
  }
  EXPECT_EQ(logits(), plain);
  EXPECT_TRUE(engine_->edits_in_force().empty());
}

TEST_F(EditMeaning, AFunctionSeesEachPositionOnceAndWritesTheEnginesMemory) {
  for (const uint32_t chunk : {0U, 5U, 1U}) {
    std::vector<int> seen(n());
    Trace trace(*engine_, ids_, {.chunk = chunk});
    trace.edit(attention_.attention_probabilities.query(Positions::range(2)),
               [&](const View& view, const Where& where) {
                 EXPECT_EQ(where.layer, 1U);
                 EXPECT_EQ(where.epoch, 0U);
                 ASSERT_EQ(view.shape[0], kHeads);
                 for (size_t r = 0; r < where.rows; ++r) {
                   ++seen[where.position + r];
                   EXPECT_EQ(where.tokens[where.position + r], ids_[where.position + r]);
                 }
                 view.head(2).fill(0);
               });
    const auto key = trace.read(kValues.logits);
    Edits same;
    same += attention_.attention_probabilities.head(2).query(Positions::range(2)) = 0.0F;
    EXPECT_EQ(run(trace)[key].floats, logits(same));
    for (size_t i = 0; i < n(); ++i) EXPECT_EQ(seen[i], i < 2 ? 0 : 1);
  }
}

TEST_F(EditMeaning, AConditionHoldsForEveryOperationOrIsRefused) {
  const Tensor never = Tensor::of({n()}, std::vector<float>(n(), 0.0F));
  const Edits edits{only(attention_.attention_scores.query(5)).when(never, 1)};
  EXPECT_EQ(logits(edits), logits());
  Trace skipping(*engine_, ids_);
  skipping.edit(skip_layers(1, 1).when(never, 1));
  EXPECT_NE(error_of(skipping).find("without a condition"), std::string::npos);
  Trace calling(*engine_, ids_);
  calling.edit(on_live(kValues.logits, [](const View&, const Where&) {}).when(never, 1));
  EXPECT_NE(error_of(calling).find("no condition"), std::string::npos);
}

TEST_F(EditMeaning, NumbersThatAreNoneAreRefusedWhereverTheyStand) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto stream = kValues.layers[1].layer_output;
  std::vector<float> bad(kWidth, 0.5F);
  bad[7] = nan;
  const Tensor good = numbers({1, kWidth}, std::vector<float>(kWidth, 0.5F));
  const Tensor row = numbers({1, kWidth}, bad);
  Autoencoder sae;
  sae.encoder = good;
  sae.encoder_bias = numbers({1}, {0});
  sae.decoder = row;
  sae.decoder_bias = numbers({kWidth}, std::vector<float>(kWidth, 0.5F));
  const auto autoencoder = std::make_shared<const Autoencoder>(sae);
  std::vector<Edit> edits{stream += Operand(row),
                          project_out(stream, row),
                          swap_subspace(stream, row, good),
                          (stream *= 2.0).when(row, 0),
                          stream += static_cast<double>(nan) * Operand(good),
                          stream *= nan,
                          stream.clamp(static_cast<double>(nan), 1),
                          noise(stream, std::numeric_limits<double>::infinity(), 1),
                          edit_sae(stream, autoencoder, {{0, FeatureEdit::Kind::kSet, 1}})};
  for (size_t i = 0; i < edits.size(); ++i) {
    Trace trace(*engine_, ids_);
    trace.edit(edits[i]);
    EXPECT_NE(error_of(trace).find("edit 1, layers[1].layer_output"), std::string::npos) << i;
  }
}

TEST_F(EditMeaning, WhatCannotBeDoneIsToldBeforeAnythingRuns) {
  const auto error = [&](Edit edit) {
    Trace trace(*engine_, ids_);
    trace.edit(std::move(edit));
    EXPECT_FALSE(trace.plan().ok());
    return error_of(trace);
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(error(make_edit(kValues.next_token_probs, EditOp::kSet, 0.5)), "logits"));
  EXPECT_TRUE(has(error(make_edit(kValues.input_size, EditOp::kSet, 1)), "input_ids"));
  EXPECT_TRUE(has(error(zero(kValues.layers[3].layer_output)), "0 to 2"));
  EXPECT_TRUE(has(error(zero(attention_.attention_keys.head(4))), "there are 4"));
  EXPECT_TRUE(has(error(kValues.layers[0].layer_output += std::vector<float>{1, 2}), "[2]"));
  EXPECT_TRUE(has(error(hide(attention_.attention_probabilities)), "attention_scores"));
  EXPECT_TRUE(has(error((kValues.layers[0].layer_output = 0.0F).call()), "call"));
  EXPECT_TRUE(has(error((kValues.layers[0].layer_output = 0.0F).lifted()), "mask"));
  EXPECT_TRUE(has(error(kValues.logits.at(99) = 0.0F), "99"));
  EXPECT_TRUE(
      has(error(kValues.layers[0].layer_output += Operand(numbers({1}, {std::nanf("")}))), "NaN"));
}

TEST_F(EditMeaning, ReadsThatAreTooLargeAreRefusedWithTheExactFigure) {
  Trace trace(*engine_, ids_, {.max_bytes = 1000});
  trace.read(kValues.layers.all().self_attn.attention_scores);
  const auto message = error_of(trace);
  EXPECT_NE(message.find(std::to_string(3 * kHeads * n() * n() * 4)), std::string::npos) << message;
}

TEST_F(EditMeaning, PlansNameShapesBytesAndLayersThatLeaveTheFastPath) {
  Trace trace(*engine_, ids_, {.generate = 4});
  trace.read(kValues.layers[2].self_attn.attention_probabilities.head(1).query(kLast));
  trace.edit(attention_.attention_scores.key(0) = kHidden);
  const auto plan = trace.plan();
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->entries.size(), 1U);
  EXPECT_EQ(plan->entries[0].shape, (std::vector<uint64_t>{1, 1, 1, n() + 3}));
  EXPECT_EQ(plan->bytes, (n() + 3) * 4);
  EXPECT_EQ(plan->explicit_layers, (std::vector<size_t>{1}));
}

TEST_F(EditMeaning, SelectionsOfReadsAreSlicesOfTheWhole) {
  Trace trace(*engine_, ids_);
  const auto whole = trace.read(attention_.attention_probabilities);
  const auto part = trace.read(
      attention_.attention_probabilities.heads({3, 1}).query({7, 2}).key(Positions::range(1, 4)));
  const auto logit = trace.read(kValues.logits.at(kLast).channels({5, -1}));
  const auto all = trace.read(kValues.logits);
  const Traced traced = run(trace);
  EXPECT_EQ(traced[part].shape, (std::vector<uint64_t>{1, 2, 2, 3}));
  const size_t heads[] = {3, 1};
  const size_t queries[] = {7, 2};
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(traced[part].floats[i],
              traced[whole].floats[(heads[i / 6] * n() + queries[i / 3 % 2]) * n() + 1 + i % 3]);
  }
  EXPECT_EQ(traced[logit].floats[0], traced[all].floats[(n() - 1) * kVocab + 5]);
  EXPECT_EQ(traced[logit].floats[1], traced[all].floats[n() * kVocab - 1]);
}

TEST_F(EditMeaning, SupportTellsTheShapesThatAreRead) {
  for (const Support& support : support(engine_->model())) {
    if (support.missing) continue;
    Trace trace(*engine_, ids_);
    Read wanted;
    wanted.value = {support.value.id, {true, 1}, {}};
    trace.read(wanted);
    const Traced traced = run(trace);
    std::vector<std::string> extents;
    for (const uint64_t extent : traced.entries[0].tensor.shape)
      extents.push_back(std::to_string(extent));
    std::vector<std::string> expected = support.extents;
    for (std::string& extent : expected) {
      if (extent == "seq") extent = std::to_string(n());
    }
    EXPECT_EQ(extents, expected) << support.name;
    EXPECT_EQ(axes_of(support.value.layout).size(),
              support.value.layout == Layout::kSize ? 1U : extents.size());
    EXPECT_NE(describe(engine_->model()).find("(" + std::string(support.value.name) + ")"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace phidias
