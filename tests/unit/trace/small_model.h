// A tiny model of the project's own data, in exact numerics.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "phidias/engine.h"
#include "phidias/generation.h"
#include "phidias/trace.h"
#include "support/reference.h"

namespace phidias::test {

class SmallModel : public testing::Test {
 protected:
  static std::shared_ptr<const Model> load(const char* name = "mini-4k") {
    auto model = Model::load(data(std::filesystem::path("models") / name));
    EXPECT_TRUE(model.ok()) << model.error().to_string();
    return *model;
  }
  static std::unique_ptr<Engine> start(std::shared_ptr<const Model> model,
                                       EngineOptions options = {.numerics = Numerics::kExact}) {
    auto engine = Engine::create(std::move(model), options);
    EXPECT_TRUE(engine.ok()) << engine.error().to_string();
    return std::move(*engine);
  }

  static Traced run(const Trace& trace) {
    auto traced = trace.run();
    EXPECT_TRUE(traced.ok()) << traced.error().to_string();
    return traced.ok() ? std::move(*traced) : Traced();
  }
  // One value of a run with edits.
  std::vector<float> read(const ValueRef& value, const Edits& edits = {},
                          TraceOptions options = {}) {
    Trace trace(*engine_, ids_, options);
    Read wanted;
    wanted.value = value;
    const size_t key = trace.read(wanted);
    trace.edit(edits);
    return run(trace).of(key).floats;
  }
  std::vector<float> logits(const Edits& edits = {}, TraceOptions options = {}) {
    return read(kValues.logits, edits, options);
  }
  static std::string error_of(const Trace& trace) {
    const auto traced = trace.run();
    EXPECT_FALSE(traced.ok());
    return traced.ok() ? std::string() : traced.error().to_string();
  }

  // Another text of the same length.
  std::vector<TokenId> other() const {
    std::vector<TokenId> ids = ids_;
    ids[4] = 55;
    ids[7] = 21;
    return ids;
  }

  std::unique_ptr<Engine> engine_ = start(load());
  const std::vector<TokenId> ids_{199, 114, 318, 194, 303, 9, 149, 267, 243, 76, 131, 12};
};

}  // namespace phidias::test
