// A checkpoint folder as the layers below the public interface see it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "formats/checkpoint.h"
#include "model/registry.h"
#include "model/weights.h"

namespace phidias::test {

struct CheckpointModel {
  ModelSpec spec;
  ModelWeights weights;  // keeps what it points into
};

inline CheckpointModel read_model(const std::filesystem::path& folder) {
  CheckpointModel model;
  auto text = read_text_file(folder / "config.json");
  EXPECT_TRUE(text.ok()) << text.error().to_string();
  auto json = parse_json(text.ok() ? *text : "{}");
  EXPECT_TRUE(json.ok());
  auto spec = spec_from_config(JsonReader(*json, "config.json"));
  EXPECT_TRUE(spec.ok()) << spec.error().to_string();
  auto checkpoint = Checkpoint::open(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  if (!spec.ok() || !checkpoint.ok()) return model;
  auto weights = bind_weights(*spec, kHuggingFaceNames, checkpoint->tensors);
  EXPECT_TRUE(weights.ok()) << weights.error().to_string();
  if (!weights.ok()) return model;
  model.spec = std::move(*spec);
  model.weights = std::move(*weights);
  return model;
}

}  // namespace phidias::test
