// What a configuration says, in every spelling that published files have.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "model/registry.h"
#include "model/rope.h"

namespace phidias {
namespace {

Json phi3(const std::string& changes = "{}") {
  Json config = *parse_json(
      R"({"model_type": "phi3", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 128,
    "original_max_position_embeddings": 16, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "rope_scaling": null,
    "sliding_window": null, "tie_word_embeddings": false, "hidden_act": "silu", "eos_token_id": 2, "bos_token_id": 1})");
  config.merge_patch(*parse_json(changes));
  return config;
}

// merge_patch deletes keys that are null in the patch: that is how a test takes a key away.
Result<ModelSpec> spec(const Json& config) {
  return spec_from_config(JsonReader(config, "config.json"));
}

const char* kFactors =
    R"("short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2, 2, 2])";

TEST(Config, LongRopeIsReadUnderEachOfItsSpellings) {
  for (const std::string kind :
       {R"("type": "longrope")", R"("rope_type": "longrope")", R"("type": "su")",
        R"("type": "longrope", "rope_type": "longrope")"}) {
    for (const std::string key : {"rope_scaling", "rope_parameters"}) {
      const auto read = spec(phi3("{\"" + key + "\": {" + kind + ", " + kFactors + "}}"));
      ASSERT_TRUE(read.ok()) << kind << ": " << read.error().to_string();
      ASSERT_TRUE(read->rope.long_rope);
      EXPECT_EQ(read->rope.long_rope->original_context, 16U);
      EXPECT_NEAR(read->rope.long_rope->long_magnitude,
                  std::sqrt(1 + std::log(8.0) / std::log(16.0)), 1e-12);
    }
  }
}

TEST(Config, RopeTypesThatContradictEachOtherAreRefused) {
  const auto read =
      spec(phi3(std::string(R"({"rope_scaling": {"type": "su", "rope_type": "longrope", )") +
                kFactors + "}}"));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().to_string().find("/rope_scaling/type"), std::string::npos)
      << read.error().to_string();
}

TEST(Config, AnUnknownRopeTypeIsNamedWithThoseThatAreKnown) {
  const auto read = spec(phi3(R"({"rope_scaling": {"type": "banana"}})"));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kUnsupported);
  EXPECT_NE(read.error().message.find("banana"), std::string::npos);
  EXPECT_NE(read.error().message.find("longrope"), std::string::npos);
}

TEST(Config, YarnIsReadAsLongRopeWithANotice) {
  const auto read =
      spec(phi3(std::string(R"({"rope_scaling": {"type": "yarn", )") + kFactors + "}}"));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->rope.long_rope);
  EXPECT_EQ(read->notices.size(), 1U);
}

TEST(Config, FactorListsMustFitTheRotatedDimensions) {
  const auto read =
      spec(phi3(R"({"partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope",
      "short_factor": [1,1,1,1,1,1,1,1], "long_factor": [1,1,1,1,1,1,1,1]}})"));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("8 entries"), std::string::npos) << read.error().message;
  EXPECT_NE(read.error().message.find("expected 6"), std::string::npos) << read.error().message;
  const auto fits = spec(phi3(
      R"({"partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope", "short_factor": [1,1,1,1,1,1], "long_factor": [1,1,1,1,1,1]}})"));
  ASSERT_TRUE(fits.ok()) << fits.error().to_string();
  EXPECT_EQ(fits->rope.rotary_dims, 12U);
}

TEST(Config, TheOriginalContextIsFoundAtTheTopInsideOrByDefault) {
  Json inside = phi3(
      std::string(
          R"({"max_position_embeddings": 131072, "rope_scaling": {"type": "su", "original_max_position_embeddings": 8192, )") +
      kFactors + "}}");
  inside.erase("original_max_position_embeddings");
  EXPECT_EQ(spec(inside)->rope.long_rope->original_context, 8192U);
  inside["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_EQ(spec(inside)->rope.long_rope->original_context, 4096U);
}

TEST(Config, PublishedMagnitudesComeOutOfTheFormula) {
  const auto read = spec(phi3(
      std::string(R"({"max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
      "rope_scaling": {"type": "longrope", )") +
      kFactors + "}}"));
  ASSERT_TRUE(read.ok());
  EXPECT_NEAR(read->rope.long_rope->long_magnitude, 1.1902380714238083, 1e-15);
  const auto stated =
      spec(phi3(std::string(R"({"rope_scaling": {"type": "longrope", "attention_factor": 1.5, )") +
                kFactors + "}}"));
  EXPECT_EQ(stated->rope.long_rope->short_magnitude, 1.5);
}

TEST(Config, AWindowThatIsNullZeroOrCoversEverythingIsNone) {
  EXPECT_EQ(spec(phi3())->mask.window, 0U);
  EXPECT_EQ(spec(phi3(R"({"sliding_window": 0})"))->mask.window, 0U);
  EXPECT_EQ(spec(phi3(R"({"sliding_window": 262144})"))->mask.window, 0U);
  EXPECT_EQ(spec(phi3(R"({"sliding_window": 2047, "max_position_embeddings": 4096})"))->mask.window,
            2047U);
}

TEST(Config, AQuerySeesItselfAndTwoThousandAndFortySixBeforeIt) {
  const MaskSpec mask{.window = 2047};
  EXPECT_EQ(mask.first_key(2046), 0U);
  EXPECT_EQ(mask.first_key(2047), 1U);
  EXPECT_EQ(mask.first_key(4000), 4000U - 2046U);
  EXPECT_EQ(MaskSpec{.window = 1}.first_key(5), 5U);
}

TEST(Config, ASizeThatIsMissingWrongOrAbsurdIsAnErrorWithItsPath) {
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads", "rms_norm_eps"}) {
    Json config = phi3();
    config.erase(key);
    auto read = spec(config);
    ASSERT_FALSE(read.ok()) << key;
    EXPECT_EQ(read.error().place.item, std::string("/") + key);
    config[key] = "many";
    EXPECT_FALSE(spec(config).ok());
    config[key] = -1;
    EXPECT_FALSE(spec(config).ok());
  }
  EXPECT_FALSE(spec(phi3(R"({"hidden_size": 4294967296})")).ok());
  EXPECT_FALSE(spec(phi3(R"({"num_key_value_heads": 3})")).ok());
  EXPECT_FALSE(spec(phi3(R"({"hidden_act": "gelu"})")).ok());
  EXPECT_FALSE(spec(phi3(R"({"quantization_config": {"bits": 4}})")).ok());
  EXPECT_FALSE(spec(phi3(R"({"partial_rotary_factor": 2})")).ok());
}

TEST(Config, HeadCountsThatWrapAroundAreRefused) {
  const auto read =
      spec(phi3(R"({"num_attention_heads": 8388609, "num_key_value_heads": 1, "head_dim": 512})"));
  ASSERT_FALSE(read.ok());
  EXPECT_FALSE(spec(phi3(R"({"partial_rotary_factor": -1e300})")).ok());
  EXPECT_FALSE(spec(phi3(R"({"num_attention_heads": 128})")).ok());  // heads of 0.5
}

TEST(Config, AnUnknownModelTypeIsRefusedByNameWithTheKnownOnes) {
  const auto read = spec(phi3(R"({"model_type": "gptneo"})"));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kUnsupported);
  for (const char* name : {"gptneo", "phi3", "llama"})
    EXPECT_NE(read.error().message.find(name), std::string::npos) << name;
}

TEST(Config, TheLlamaBlockIsReadAsFarAsItsFeaturesGo) {
  const Json plain = phi3(R"({"model_type": "llama", "head_dim": 32})");
  const auto read = spec(plain);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->attention.head_dim, 32U);
  EXPECT_EQ(read->mask.window, 0U);
  EXPECT_FALSE(
      spec(phi3(R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8}})"))
          .ok());
}

TEST(Config, EndIdsMayBeOneOrSeveral) {
  EXPECT_EQ(spec(phi3(R"({"eos_token_id": [32000, 32001, 32007]})"))->end_ids,
            (std::vector<int32_t>{32000, 32001, 32007}));
  EXPECT_EQ(spec(phi3())->end_ids, std::vector<int32_t>{2});
  EXPECT_TRUE(spec(phi3(R"({"eos_token_id": -1})"))->end_ids.empty());
  EXPECT_FALSE(spec(phi3(R"({"eos_token_id": "<end>"})")).ok());
}

TEST(Rope, TheLongListHoldsFromOnePastTheOriginalContext) {
  RopeSpec rope{.theta = 10000, .rotary_dims = 16, .long_rope = LongRope{{}, {}, 4096, 1, 1}};
  EXPECT_EQ(rotary_factors_for(rope, 4096), RotaryFactors::kShort);
  EXPECT_EQ(rotary_factors_for(rope, 4097), RotaryFactors::kLong);
  rope.long_rope.reset();
  EXPECT_EQ(rotary_factors_for(rope, 1 << 20), RotaryFactors::kPlain);
}

TEST(Rope, AnglesStayExactAtFarPositions) {
  // Angle tables in 16 bits are what made others' long texts fall apart: at 4000 the error would be
  // of order 1.
  const RopeTable table(RopeSpec{.theta = 10000, .rotary_dims = 96, .long_rope = {}});
  std::vector<float> cosine(table.half());
  std::vector<float> sine(table.half());
  table.fill(4000, RotaryFactors::kPlain, cosine.data(), sine.data());
  for (size_t m = 0; m < table.half(); ++m) {
    const double angle = 4000 / std::pow(10000.0, 2.0 * static_cast<double>(m) / 96);
    EXPECT_NEAR(cosine[m], std::cos(angle), 5e-4);
    EXPECT_NEAR(sine[m], std::sin(angle), 5e-4);
  }
}

TEST(Rope, TheMagnitudeScalesBothLists) {
  LongRope lists{std::vector<float>(4, 1.0F), std::vector<float>(4, 3.0F), 16, 1.25, 1.5};
  const RopeTable table(RopeSpec{.theta = 10000, .rotary_dims = 8, .long_rope = lists});
  std::vector<float> cosine(4);
  std::vector<float> sine(4);
  for (const auto& [factors, magnitude] :
       {std::pair(RotaryFactors::kShort, 1.25), std::pair(RotaryFactors::kLong, 1.5)}) {
    table.fill(7, factors, cosine.data(), sine.data());
    for (size_t m = 0; m < 4; ++m) EXPECT_NEAR(std::hypot(cosine[m], sine[m]), magnitude, 1e-6);
  }
}

}  // namespace
}  // namespace phidias
