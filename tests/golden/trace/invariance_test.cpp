// What a trace may not depend on, and what it may not change.
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

INSTANTIATE_TEST_SUITE_P(Variants, Invariance, testing::ValuesIn(test::kDenseVariants),
                         test::variant_name);

}  // namespace
}  // namespace phidias
