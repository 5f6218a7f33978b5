// A tiny model whose gradients are stored, in exact numerics, and the text that they are of.
#pragma once

#include <gtest/gtest.h>

#include "phidias/engine.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias::test {

class TrainCase : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = reference(std::filesystem::path("models") / GetParam());
    PHIDIAS_NEEDS_REFERENCE(folder_ / "train.safetensors");
    auto model = Model::load(folder_);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    auto engine = Engine::create(*model, {.numerics = Numerics::kExact});
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    engine_ = std::move(*engine);
    ids_ = read_json(folder_ / "cases.json")["train"]["sequences"][0].get<std::vector<TokenId>>();
  }

  std::filesystem::path folder_;
  std::unique_ptr<Engine> engine_;
  std::vector<TokenId> ids_;
};

}  // namespace phidias::test
