// The configurations of the models that are not plain Phi-3 blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "formats/gguf.h"
#include "model/registry.h"

namespace phidias {
namespace {

const char* kFactors =
    R"("short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2, 2, 2])";

Json moe(const std::string& changes = "{}") {
  Json config = *parse_json(
      R"({"model_type": "phimoe", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-05, "num_local_experts": 16, "num_experts_per_tok": 2, "attention_bias": true,
    "lm_head_bias": true, "sliding_window": 131072})");
  config.merge_patch(*parse_json(changes));
  return config;
}

Result<ModelSpec> spec(const Json& config) {
  return spec_from_config(JsonReader(config, "config.json"));
}

TEST(MoeConfig, EveryDifferenceIsInTheSpecification) {
  const auto read = spec(moe());
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->norm, Norm::kLayer);
  EXPECT_EQ(read->experts->count, 16U);
  EXPECT_EQ(read->experts->band, 0.02F);
  EXPECT_TRUE(read->bias.qkv && read->bias.attention_output && read->bias.head);
  EXPECT_FALSE(read->bias.ffn);
  EXPECT_EQ(read->mask.window, 0U);
  EXPECT_FALSE(spec(moe(R"({"attention_bias": false, "lm_head_bias": false})"))->bias.head);
}

TEST(MoeConfig, MagnitudesComeFromTheConfiguration) {
  const std::string lists =
      std::string(
          R"({"rope_scaling": {"type": "longrope", "original_max_position_embeddings": 16, )") +
      kFactors;
  const auto stated = spec(moe(lists + R"(, "short_mscale": 1.1, "long_mscale": 1.3}})"));
  ASSERT_TRUE(stated.ok()) << stated.error().to_string();
  EXPECT_EQ(stated->rope.long_rope->short_magnitude, 1.1);
  EXPECT_EQ(stated->rope.long_rope->long_magnitude, 1.3);
  const auto formula = spec(moe(lists + "}}"));
  EXPECT_NEAR(formula->rope.long_rope->short_magnitude,
              std::sqrt(1 + std::log(8.0) / std::log(16.0)), 1e-12);
  EXPECT_FALSE(spec(moe(lists + R"(, "short_mscale": -1}})")).ok());
}

TEST(MoeConfig, ARouterOfAnotherKindIsRefused) {
  const auto three = spec(moe(R"({"num_experts_per_tok": 3})"));
  ASSERT_FALSE(three.ok());
  EXPECT_EQ(three.error().code, Code::kUnsupported);
  EXPECT_FALSE(spec(moe(R"({"num_local_experts": 1})")).ok());
  EXPECT_FALSE(spec(moe(R"({"num_local_experts": 99999999})")).ok());
  EXPECT_FALSE(spec(moe(R"({"router_jitter_noise": 2})")).ok());
}

}  // namespace
}  // namespace phidias
