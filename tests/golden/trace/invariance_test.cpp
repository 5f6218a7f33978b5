// What a trace may not depend on, and what it may not change.
#include <cmath>

#include "api/model_impl.h"
#include "kernels/attention_explicit.h"
#include "trace_case.h"

namespace phidias {
namespace {

using Invariance = test::TraceCase;

std::vector<float> untraced(Engine& engine, const std::vector<TokenId>& ids) {
  std::vector<float> all;
  const SequenceId sequence = engine.open({.prompt_tokens = static_cast<uint32_t>(ids.size())});
  std::vector<Row> rows;
  for (uint32_t i = 0; i < ids.size(); ++i) rows.push_back({ids[i], sequence, i, true});
  const Status status = engine.step(rows, [&](size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  });
  EXPECT_TRUE(status.ok());
  engine.close(sequence);
  return all;
}

TEST_P(Invariance, ReadingEverythingChangesNoBitInAnyNumerics) {
  for (const EngineOptions& options :
       {EngineOptions{.numerics = Numerics::kExact}, EngineOptions{.numerics = Numerics::kFast},
        EngineOptions{.numerics = Numerics::kFast, .kv = "q8"}}) {
    const auto engine = this->engine(options);
    const auto expected = untraced(*engine, ids());
    EXPECT_EQ(logits(*engine, ids()), expected);
    EXPECT_EQ(all_values(*engine, ids()).at("logits").floats, expected);
  }
}

TEST_P(Invariance, ChunksThreadsAndPassesChangeNoValue) {
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const auto engine = this->engine({.threads = 1, .numerics = numerics});
    const auto expected = all_values(*engine, ids());
    for (const uint32_t chunk : {1U, 2U, 3U, 7U})
      EXPECT_EQ(all_values(*engine, ids(), {.chunk = chunk}), expected) << chunk;
    const auto other = this->engine({.threads = 3, .numerics = numerics, .step_rows = 5});
    EXPECT_EQ(all_values(*other, ids()), expected);
  }
}

TEST_P(Invariance, WritingBackWhatWasReadChangesNoBit) {
  const auto engine = this->engine();
  const auto ids = this->ids();
  const auto plain = logits(*engine, ids);
  const auto values = all_values(*engine, ids);
  for (const auto& [name, tensor] : values) {
    auto ref = parse_value(name);
    ASSERT_TRUE(ref.ok());
    if (!info_of(ref->id).writable || tensor.type != TensorType::kF32) continue;
    Edits edits;
    edits += make_edit(*ref, EditOp::kSet, Operand(tensor));
    EXPECT_EQ(logits(*engine, ids, edits), plain) << name;
  }
}

TEST_P(Invariance, EveryWritableValueIsAliveAndCausal) {
  const auto engine = this->engine();
  const auto ids = this->ids();
  const auto plain = all_values(*engine, ids);
  const int64_t position = 3;
  for (const auto& [name, tensor] : plain) {
    auto ref = parse_value(name);
    ASSERT_TRUE(ref.ok());
    const ValueInfo& info = info_of(ref->id);
    if (!info.writable || tensor.type != TensorType::kF32) continue;
    ref->selection.at = Positions(position);
    Edits edits;
    edits += info.id == ValueId::kAttentionProbabilities
                 ? uniform(*ref)
                 : make_edit(*ref, EditOp::kScale, Operand(-1.75));
    const auto changed = all_values(*engine, ids, {}, edits);
    const auto vocab = static_cast<ptrdiff_t>(engine->vocab());
    const auto& before = plain.at("logits").floats;
    const auto& after = changed.at("logits").floats;
    EXPECT_NE(after, before) << name;
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + position * vocab, after.begin()))
        << name << " moved an earlier position";
  }
}

TEST_P(Invariance, GenerationReadsEachPositionOnceAndEqualsOnePassOverAllTokens) {
  const auto engine = this->engine();
  std::vector<TokenId> prompt = ids();
  prompt.resize(5);
  Trace trace(*engine, prompt, {.generate = 20});
  const auto reads = parse_read("all", *model_);
  for (const Read& read : *reads) trace.read(read);
  const Traced generated = run(trace);
  ASSERT_EQ(generated.tokens.size(), 20U);
  std::vector<TokenId> whole = prompt;
  whole.insert(whole.end(), generated.tokens.begin(), generated.tokens.end() - 1);
  const auto expected = all_values(*engine, whole);
  EXPECT_EQ(generated.epochs, model_->info().original_context > 0 ? 2U : 1U);
  for (const Traced::Entry& entry : generated.entries) {
    if (entry.name == "next_token_probs") continue;  // of the prompt's last position
    EXPECT_EQ(entry.tensor, expected.at(entry.name)) << entry.name;
  }
}

TEST_P(Invariance, AnEditOfGeneratedPositionsTouchesThoseAlone) {
  const auto engine = this->engine();
  Trace trace(*engine, ids(), {.generate = 4});
  const Tensor ramp = Tensor::of({1}, std::vector<float>{0.5F});
  trace.edit(kValues.layers[1].layer_output.at(kDecode) += Operand(ramp));
  const Traced traced = run(trace);
  EXPECT_EQ(traced.edits[0].rows, 3U);
}

TEST_P(Invariance, AKeyValueHeadServesItsOwnGroupOfQueryHeadsAlone) {
  const auto engine = this->engine();
  const ModelInfo& info = model_->info();
  const size_t group = info.num_heads / info.num_kv_heads;
  const size_t n = ids().size();
  const auto attention = kValues.layers[1].self_attn;
  const auto heads_of = [&](const Edits& edits) {
    Trace trace(*engine, ids());
    const auto key = trace.read(attention.attention_head_outputs);
    trace.edit(edits);
    return run(trace)[key].floats;
  };
  const auto plain = heads_of({});
  for (const bool keys : {true, false}) {
    Edits edits;
    if (keys) {
      edits += attention.attention_keys.head(1) *= -0.5;
    } else {
      edits += attention.attention_values.head(1) *= -0.5;
    }
    const auto changed = heads_of(edits);
    for (size_t h = 0; h < info.num_heads; ++h) {
      bool same = true;
      for (size_t s = 1; s < n; ++s) {
        const auto at = static_cast<ptrdiff_t>((s * info.num_heads + h) * info.head_dim);
        same = same && std::equal(plain.begin() + at, plain.begin() + at + info.head_dim,
                                  changed.begin() + at);
      }
      EXPECT_EQ(same, h / group != 1) << "head " << h;
    }
  }
}

TEST_P(Invariance, WhatLeftTheWindowIsNotSeenInThatBlock) {
  const uint32_t window = model_->info().window;
  if (window == 0 || window >= ids().size()) GTEST_SKIP() << "no window within the text";
  const auto engine = this->engine();
  const auto attention = kValues.layers[1].self_attn;
  const auto heads_of = [&](const Edits& edits) {
    Trace trace(*engine, ids());
    const auto key = trace.read(attention.attention_head_outputs);
    trace.edit(edits);
    return run(trace)[key].floats;
  };
  Edits edits;
  edits += attention.attention_values.at(0) += 1.0;
  const auto plain = heads_of({});
  const auto changed = heads_of(edits);
  const size_t width = model_->info().num_heads * model_->info().head_dim;
  for (size_t row = 0; row < ids().size(); ++row) {
    const auto at = static_cast<ptrdiff_t>(row * width);
    EXPECT_EQ(std::equal(plain.begin() + at, plain.begin() + at + static_cast<ptrdiff_t>(width),
                         changed.begin() + at),
              row >= window)
        << row;
  }
}

TEST_P(Invariance, EveryRowTellsTheListThatItWasRotatedWith) {
  const auto engine = this->engine();
  const uint32_t original = model_->info().original_context;
  for (const size_t length : {original == 0 ? 5U : original, original + 1}) {
    std::vector<TokenId> text = ids();
    text.resize(length, 7);
    Trace trace(*engine, text);
    const auto key = trace.read(kValues.layers[0].self_attn.rotary_factor_set);
    const int64_t expected = original == 0 ? 0 : length > original ? 2 : 1;
    EXPECT_EQ(run(trace)[key].integers, std::vector<int64_t>(length, expected));
  }
}

TEST_P(Invariance, SumsAndCopiesAreExactOnQuantizedWeightsToo) {
  auto model = Model::load(folder_, {.weights = "q8_0"});
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  model_ = *model;
  const auto engine = this->engine({.numerics = Numerics::kFast});
  const auto values = all_values(*engine, ids());
  const auto of = [&](const std::string& name) { return values.at(name).floats; };
  const auto sum = [](std::vector<float> a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  };
  EXPECT_EQ(of("layers.0.layer_input"), of("token_embeddings"));
  for (uint32_t l = 0; l < model_->info().num_layers; ++l) {
    const std::string layer = "layers." + std::to_string(l) + ".";
    EXPECT_EQ(of(layer + "layer_mid"),
              sum(of(layer + "layer_input"), of(layer + "self_attn.attention_output")));
    EXPECT_EQ(of(layer + "layer_output"),
              sum(of(layer + "layer_mid"), of(layer + "mlp.mlp_output")));
    const auto scores = of(layer + "self_attn.attention_scores");
    const auto probabilities = of(layer + "self_attn.attention_probabilities");
    const size_t n = ids().size();
    for (size_t row = 0; row < scores.size() / n; ++row) {
      const size_t query = row % n;
      const size_t first = model_->impl().spec.mask.first_key(static_cast<uint32_t>(query));
      std::vector<float> softened(n);
      std::vector<double> scratch(n + 64);
      attention_softmax(best_table(), scores.data() + row * n + first, query + 1 - first,
                        scratch.data(), softened.data() + first);
      EXPECT_TRUE(std::equal(softened.begin(), softened.end(),
                             probabilities.begin() + static_cast<ptrdiff_t>(row * n)));
    }
    EXPECT_EQ(of(layer + "self_attn.attention_premix"),
              of(layer + "self_attn.attention_head_outputs"));
    const auto fused = of(layer + "mlp.gate_up_output");
    const auto activation = of(layer + "mlp.mlp_activation");
    const auto neurons = of(layer + "mlp.mlp_neurons");
    const size_t f = model_->info().intermediate_size;
    for (size_t i = 0; i < neurons.size(); ++i)
      EXPECT_EQ(neurons[i], fused[i / f * 2 * f + f + i % f] * activation[i]);
  }
  EXPECT_EQ(of("logits"), of("lm_head_output"));
  const auto logits = of("logits");
  const auto chosen = of("next_token_probs");
  const auto last = std::span(logits).last(chosen.size());
  const double largest = *std::max_element(last.begin(), last.end());
  double total = 0;
  for (const float logit : last) total += std::exp(double{logit} - largest);
  for (size_t i = 0; i < chosen.size(); ++i)
    EXPECT_FLOAT_EQ(chosen[i], static_cast<float>(std::exp(double{last[i]} - largest) / total));
}

INSTANTIATE_TEST_SUITE_P(Variants, Invariance, testing::ValuesIn(test::kDenseVariants),
                         test::folder_name);

}  // namespace
}  // namespace phidias
