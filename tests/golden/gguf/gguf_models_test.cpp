// Tiny whole GGUF files of several tensor types against the reference implementation's logits and
// tokens.
#include <gtest/gtest.h>

#include "phidias/engine.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias {
namespace {

class GgufReference : public testing::TestWithParam<const char*> {};

std::vector<float> logits(Engine& engine, const std::vector<int64_t>& ids) {
  std::vector<float> all;
  const SequenceId sequence = engine.open(
      {.rope_switch = RopeSwitch::kReprefill, .prompt_tokens = static_cast<uint32_t>(ids.size())});
  std::vector<Row> rows;
  for (size_t i = 0; i < ids.size(); ++i)
    rows.push_back({static_cast<TokenId>(ids[i]), sequence, static_cast<uint32_t>(i), true});
  const Status status = engine.step(rows, [&](size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  });
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  engine.close(sequence);
  return all;
}

double relative_distance(std::span<const float> actual, std::span<const float> expected) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    difference = std::max(
        difference, std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i])));
  }
  return difference / largest;
}

TEST_P(GgufReference, LogitsAndGreedyTokensAreTheReferences) {
  const std::string name = std::string("phi3-tiny-") + GetParam();
  const auto path = test::reference("gguf/" + name + ".gguf");
  PHIDIAS_NEEDS_REFERENCE(path);
  auto model = Model::load(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  auto engine = Engine::create(*model, {.numerics = Numerics::kExact});
  ASSERT_TRUE(engine.ok()) << engine.error().to_string();
  const auto expected = test::read_tensors(test::reference("gguf/" + name + ".safetensors"));
  for (const auto& [tensor, ids] : expected.integers) {
    if (!tensor.ends_with("input_ids")) continue;
    const std::string prefix = tensor.substr(0, tensor.size() - std::string("input_ids").size());
    EXPECT_LT(relative_distance(logits(**engine, ids), expected.floats.at(prefix + "logits")), 2e-5)
        << tensor;
  }
  const auto& prompt = expected.integers.at("generate.prompt_ids");
  const auto& generated = expected.integers.at("generate.ids");
  std::vector<TokenId> ids(prompt.begin(), prompt.end());
  const SequenceId sequence = (*engine)->open(
      {.rope_switch = RopeSwitch::kReprefill, .prompt_tokens = static_cast<uint32_t>(ids.size())});
  size_t fed = 0;
  for (const int64_t token : generated) {
    std::vector<Row> rows;
    for (; fed < ids.size(); ++fed)
      rows.push_back({ids[fed], sequence, static_cast<uint32_t>(fed), fed + 1 == ids.size()});
    TokenId best = -1;
    const Status status = (*engine)->step(rows, [&](size_t, std::span<const float> row) {
      best = static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
    });
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    ASSERT_EQ(best, token);
    ids.push_back(best);
  }
}

TEST_P(GgufReference, FastNumericsStayNear) {
  const std::string name = std::string("phi3-tiny-") + GetParam();
  const auto path = test::reference("gguf/" + name + ".gguf");
  PHIDIAS_NEEDS_REFERENCE(path);
  auto model = Model::load(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const auto expected = test::read_tensors(test::reference("gguf/" + name + ".safetensors"));
  for (const char* kv : {"f32", "f16", "bf16", "q8"}) {
    auto engine = Engine::create(*model, {.numerics = Numerics::kFast, .kv = kv});
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    for (const auto& [tensor, ids] : expected.integers) {
      if (!tensor.ends_with("input_ids")) continue;
      const std::string prefix = tensor.substr(0, tensor.size() - std::string("input_ids").size());
      // Random weights have no structure that evens errors out: activations in 8 bits move these
      // logits by up to a tenth.
      EXPECT_LT(relative_distance(logits(**engine, ids), expected.floats.at(prefix + "logits")),
                0.1)
          << tensor << " " << kv;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GgufReference,
                         testing::Values("f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "longrope"),
                         [](const auto& type) { return std::string(type.param); });

}  // namespace
}  // namespace phidias
