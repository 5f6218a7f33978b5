// The values of a model with experts.
#include "trace_case.h"

namespace phidias {
namespace {

using RouterTrace = test::TraceCase;
INSTANTIATE_TEST_SUITE_P(Experts, RouterTrace, testing::Values("phimoe"), test::folder_name);

std::map<std::string, Tensor> values_of(Engine& engine, const std::vector<TokenId>& ids,
                                        const std::vector<std::string>& paths,
                                        const Edits& edits = {}) {
  Trace trace(engine, ids);
  for (const std::string& path : paths) {
    auto reads = parse_read(path, engine.model());
    EXPECT_TRUE(reads.ok()) << reads.error().to_string();
    if (!reads.ok()) continue;
    for (const Read& read : *reads) trace.read(read);
  }
  trace.edit(edits);
  auto traced = trace.run();
  EXPECT_TRUE(traced.ok()) << traced.error().to_string();
  std::map<std::string, Tensor> values;
  if (!traced.ok()) return values;
  for (Traced::Entry& entry : traced->entries) values[entry.name] = std::move(entry.tensor);
  return values;
}

TEST_P(RouterTrace, TheRoutersValuesAreServedByName) {
  const auto engine = this->engine();
  for (const Json& entry : cases_["values"]) {
    const auto ids = entry["ids"].get<std::vector<TokenId>>();
    const auto expected = test::read_tensors(folder_ / entry["file"].get<std::string>());
    const auto actual = values_of(*engine, ids,
                                  {"layers[*].mlp.router_logits", "layers[*].router_experts",
                                   "layers[*].mlp.router_weights", "layers[*].mlp_output"});
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      const Tensor& experts = actual.at(layer + "mlp.router_experts");
      EXPECT_EQ(experts.shape, (std::vector<uint64_t>{1, ids.size(), 2}));
      EXPECT_EQ(experts.integers, expected.integers.at(layer + "router_experts"));
      EXPECT_EQ(actual.at(layer + "mlp.router_logits").shape,
                (std::vector<uint64_t>{1, ids.size(), 4}));
      for (const std::string name : {"router_logits", "router_weights", "mlp_output"}) {
        const std::vector<float>& want = expected.floats.at(layer + name);
        const std::vector<float>& got = actual.at(layer + "mlp." + name).floats;
        EXPECT_LE(test::scaled_distance(got, want, 1.0), 2e-5) << layer << name;
      }
    }
  }
}

TEST_P(RouterTrace, ValuesOfOneFeedForwardBlockAreRefusedWithTheReason) {
  const auto engine = this->engine();
  for (const char* path : {"layers[0].mlp_activation", "layers[1].mlp.mlp_neurons"}) {
    auto reads = parse_read(path, *model_);
    ASSERT_TRUE(reads.ok()) << path;
    Trace trace(*engine, ids());
    trace.read(reads->front());
    const auto traced = trace.run();
    ASSERT_FALSE(traced.ok()) << path;
    EXPECT_NE(traced.error().message.find("expert"), std::string::npos) << traced.error().message;
  }
}

TEST_P(RouterTrace, SettingTheRoutersLogitsChoosesTheExperts) {
  auto edits = edits_from_json(
      R"([{"value": "layers[1].mlp.router_logits", "op": "set", "tensor": [0, 5, -5, 9]}])");
  ASSERT_TRUE(edits.ok()) << edits.error().to_string();
  const auto engine = this->engine();
  const auto actual = values_of(*engine, ids(), {"layers[1].mlp.router_experts"}, *edits);
  const auto& experts = actual.at("layers.1.mlp.router_experts").integers;
  for (size_t i = 0; i < experts.size(); ++i) EXPECT_EQ(experts[i], i % 2 == 0 ? 3 : 1);
}

}  // namespace
}  // namespace phidias
