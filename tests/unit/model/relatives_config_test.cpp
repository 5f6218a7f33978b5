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

Json small(const std::string& changes = "{}") {
  Json config = *parse_json(
      R"({"model_type": "phi3small", "hidden_size": 64, "ff_intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100352, "max_position_embeddings": 128,
    "layer_norm_epsilon": 1e-05, "rope_embedding_base": 1000000, "hidden_act": "gegelu", "gegelu_limit": 20.0,
    "blocksparse_block_size": 64, "blocksparse_num_local_blocks": 16, "blocksparse_vert_stride": 8,
    "dense_attention_every_n_layers": 2, "mup_use_scaling": true, "mup_attn_multiplier": 1.0,
    "mup_embedding_multiplier": 10.0, "mup_width_multiplier": 8.0, "attention_bias": false})");
  config.merge_patch(*parse_json(changes));
  return config;
}

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

TEST(SmallConfig, EveryDifferenceIsInTheSpecification) {
  const auto read = spec(small());
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->norm, Norm::kLayer);
  EXPECT_EQ(read->gating, Gating::kGegelu);
  EXPECT_EQ(read->gating_limit, 20.0F);
  EXPECT_TRUE(read->grouped_qkv);
  EXPECT_TRUE(read->bias.qkv && read->bias.attention_output && read->bias.ffn);
  EXPECT_FALSE(read->bias.head);
  EXPECT_EQ(read->attention.score_scale(), 1.0F / 16);
  EXPECT_EQ(read->embedding_scale, 10.0F);
  EXPECT_EQ(read->logit_divisor, 8.0F);
  EXPECT_TRUE(read->tied_head);
  EXPECT_EQ(read->rope.theta, 1e6);
  EXPECT_EQ(read->chat_template, "phi-3-small");
}

TEST(SmallConfig, ScalesMayBeSwitchedOff) {
  const auto read = spec(small(
      R"({"mup_use_scaling": false, "mup_embedding_multiplier": null, "mup_width_multiplier": 0, "gegelu_limit": null})"));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->attention.score_scale(), 0.25F);
  EXPECT_EQ(read->embedding_scale, 1.0F);
  EXPECT_EQ(read->logit_divisor, 1.0F);
  EXPECT_TRUE(std::isinf(read->gating_limit));
}

TEST(SmallConfig, LayersAreSparseButForEveryNth) {
  const auto sparse = [](const std::string& changes) {
    const auto read = spec(small(changes));
    EXPECT_TRUE(read.ok()) << read.error().to_string();
    std::string layers;
    for (size_t layer = 0; layer < 6; ++layer) layers += read->mask.sparse(layer) ? 's' : 'd';
    return layers;
  };
  EXPECT_EQ(sparse("{}"), "sdsdsd");
  EXPECT_EQ(sparse(R"({"dense_attention_every_n_layers": 3})"), "ssdssd");
  EXPECT_EQ(sparse(R"({"dense_attention_every_n_layers": 1})"), "dddddd");
  EXPECT_EQ(sparse(R"({"dense_attention_every_n_layers": 0})"), "ssssss");
  EXPECT_EQ(sparse(R"({"dense_attention_every_n_layers": null})"), "ssssss");
}

TEST(SmallConfig, HeadsStepByAtLeastOneBlockUnlessTheyAreAlike) {
  EXPECT_EQ(spec(small())->mask.blocks->head_step, 2U);
  EXPECT_EQ(spec(small(R"({"num_attention_heads": 32})"))->mask.blocks->head_step, 1U);
  EXPECT_EQ(spec(small(R"({"blocksparse_homo_head_pattern": true})"))->mask.blocks->head_step, 0U);
}

TEST(SmallConfig, IdsThatStandForNothingAreMaskedAsFarAsTheVocabularyReaches) {
  const std::vector<int32_t> masked = spec(small())->masked_ids;
  EXPECT_EQ(masked.size(), 91U);
  for (const int32_t id : {100256, 100258, 100260, 100264, 100265, 100267, 100276, 100351})
    EXPECT_NE(std::find(masked.begin(), masked.end(), id), masked.end()) << id;
  for (const int32_t id : {0, 100255, 100257, 100261, 100262, 100263, 100266})
    EXPECT_EQ(std::find(masked.begin(), masked.end(), id), masked.end()) << id;
  EXPECT_TRUE(spec(small(R"({"vocab_size": 320})"))->masked_ids.empty());
  EXPECT_EQ(spec(small(R"({"vocab_size": 100259})"))->masked_ids,
            (std::vector<int32_t>{100256, 100258}));
}

TEST(SmallConfig, TheFeedForwardWidthIsStatedOrDerivedNotBoth) {
  EXPECT_EQ(spec(small())->ffn_width, 96U);
  const std::string derived = R"("ff_intermediate_size": null, "ff_dim_multiplier": 4)";
  EXPECT_EQ(spec(small("{" + derived + "}"))->ffn_width, 256U);  // 4 * 21 * 2, padded
  EXPECT_EQ(spec(small("{" + derived + R"(, "gegelu_pad_to_256": false})"))->ffn_width, 168U);
  const auto both = spec(small(R"({"ff_dim_multiplier": 4})"));
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.error().place.item, "/ff_intermediate_size");
  EXPECT_FALSE(spec(small(R"({"ff_intermediate_size": null})")).ok());
  EXPECT_FALSE(
      spec(small(R"({"ff_intermediate_size": null, "ff_dim_multiplier": 16777216})")).ok());
}

TEST(SmallConfig, MagnitudesDifferWhereTheyAreNotStated) {
  const std::string lists =
      std::string(R"("rope_scaling": {"type": "su", "original_max_position_embeddings": 16, )") +
      kFactors;
  const auto plain = spec(small("{" + lists + "}}"));
  ASSERT_TRUE(plain.ok()) << plain.error().to_string();
  const double formula = std::sqrt(1 + std::log(8.0) / std::log(16.0));
  EXPECT_EQ(plain->rope.long_rope->short_magnitude, 1.0);
  EXPECT_NEAR(plain->rope.long_rope->long_magnitude, formula, 1e-12);
  const auto unset = spec(small("{" + lists + R"(, "short_mscale": -1, "long_mscale": -1}})"));
  EXPECT_EQ(unset->rope.long_rope->short_magnitude, 1.0);
  EXPECT_NEAR(unset->rope.long_rope->long_magnitude, formula, 1e-12);
  const auto stated = spec(small("{" + lists + R"(, "short_mscale": 1.05, "long_mscale": 1.25}})"));
  EXPECT_EQ(stated->rope.long_rope->short_magnitude, 1.05);
  EXPECT_EQ(stated->rope.long_rope->long_magnitude, 1.25);
}

TEST(SmallConfig, WrongValuesAreErrorsWithTheirPaths) {
  for (const auto& [changes, path] :
       {std::pair(R"({"blocksparse_block_size": 0})", "/blocksparse_block_size"),
        std::pair(R"({"blocksparse_num_local_blocks": 0})", "/blocksparse_num_local_blocks"),
        std::pair(R"({"blocksparse_vert_stride": null})", "/blocksparse_vert_stride"),
        std::pair(R"({"gegelu_limit": -1})", "/gegelu_limit"),
        std::pair(R"({"hidden_act": "silu"})", "/hidden_act"),
        std::pair(R"({"mup_embedding_multiplier": -10})", "/mup_embedding_multiplier"),
        std::pair(R"({"rope_embedding_base": 0})", "/rope_embedding_base"),
        std::pair(R"({"layer_norm_epsilon": 0})", "/layer_norm_epsilon")}) {
    const auto read = spec(small(changes));
    ASSERT_FALSE(read.ok()) << changes;
    EXPECT_EQ(read.error().place.item, path);
  }
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
