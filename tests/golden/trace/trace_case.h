// The tiny reference models, each loaded once, and their traces.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "phidias/engine.h"
#include "phidias/trace.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias::test {

inline constexpr const char* kDenseVariants[] = {
    "mini-4k", "medium-4k", "mini-128k", "medium-128k-su", "phi-4-mini", "phi-4", "wide-bf16"};

class TraceCase : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = reference(std::filesystem::path("models") / GetParam());
    PHIDIAS_NEEDS_REFERENCE(folder_);
    auto model = Model::load(folder_);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    model_ = *model;
    cases_ = read_json(folder_ / "cases.json");
  }

  std::unique_ptr<Engine> engine(EngineOptions options = {.numerics = Numerics::kExact}) {
    auto created = Engine::create(model_, options);
    EXPECT_TRUE(created.ok()) << created.error().to_string();
    return std::move(*created);
  }

  // Ids of the longest stored pass.
  std::vector<TokenId> ids() { return cases_["values"].back()["ids"].get<std::vector<TokenId>>(); }

  static Traced run(const Trace& trace) {
    auto traced = trace.run();
    EXPECT_TRUE(traced.ok()) << traced.error().to_string();
    return traced.ok() ? std::move(*traced) : Traced();
  }

  // All standard values and the fused projections, by name.
  std::map<std::string, Tensor> all_values(Engine& engine, const std::vector<TokenId>& ids,
                                           TraceOptions options = {}, const Edits& edits = {},
                                           std::vector<std::string> more = {}) {
    Trace trace(engine, ids, options);
    more.emplace_back("all");
    for (const std::string& path : more) {
      auto reads = parse_read(path, engine.model());
      EXPECT_TRUE(reads.ok()) << reads.error().to_string();
      for (const Read& read : *reads) trace.read(read);
    }
    trace.edit(edits);
    std::map<std::string, Tensor> values;
    for (Traced::Entry& entry : run(trace).entries) values[entry.name] = std::move(entry.tensor);
    return values;
  }

  std::vector<float> logits(Engine& engine, const std::vector<TokenId>& ids,
                            const Edits& edits = {}, TraceOptions options = {}) {
    Trace trace(engine, ids, options);
    const auto key = trace.read(kValues.logits);
    trace.edit(edits);
    return run(trace)[key].floats;
  }

  std::filesystem::path folder_;
  std::shared_ptr<const Model> model_;
  Json cases_;
};

}  // namespace phidias::test
