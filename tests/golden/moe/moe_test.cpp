// The mixture of experts against its reference.
#include "model/blocks/routing.h"
#include "support/reference_model.h"

namespace phidias::test {
namespace {

class Moe : public ReferenceModel {};
INSTANTIATE_TEST_SUITE_P(Folders, Moe, ::testing::Values("phimoe"), folder_name);

TEST(SparseMixer, PicksAndWeightsAreTheReferences) {
  const auto path = reference("models/phimoe/sparsemixer.safetensors");
  PHIDIAS_NEEDS_REFERENCE(path);
  const TensorMap tensors = read_tensors(path);
  const std::vector<float>& logits = tensors.floats.at("logits");
  const std::vector<int64_t>& experts = tensors.integers.at("experts");
  const std::vector<float>& weights = tensors.floats.at("weights");
  for (size_t row = 0; row < experts.size() / 2; ++row) {
    uint32_t picks[2];
    float got[2];
    route(std::span(logits).subspan(row * 16, 16), 0.02F, picks, got);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(picks[i], experts[row * 2 + i]) << "row " << row;
      EXPECT_NEAR(got[i], weights[row * 2 + i], 1e-5) << "row " << row;
    }
  }
}

TEST(SparseMixer, TheFirstOfEqualLogitsIsPickedAndEachHasHalfTheWeight) {
  uint32_t picks[2];
  float weights[2];
  const std::vector<float> tied = {1, 3, 3, 2};
  route(tied, 0.02F, picks, weights);
  EXPECT_EQ(picks[0], 1U);
  EXPECT_EQ(picks[1], 2U);
  EXPECT_EQ(weights[0], 0.5F);
  EXPECT_EQ(weights[1], 1.0F);  // the first pick is gone, and nothing else is near
}

TEST(SparseMixer, ZeroOverZeroIsWithinTheBand) {
  uint32_t picks[2];
  float weights[2];
  const std::vector<float> zeros(4, 0.0F);
  route(zeros, 0.02F, picks, weights);
  EXPECT_EQ(weights[0], 0.25F);
  EXPECT_FLOAT_EQ(weights[1], 1.0F / 3);
}

TEST(SparseMixer, NanPicksTwoExpertsThatExistAndShowsInTheWeights) {
  for (size_t at = 0; at < 4; ++at) {
    std::vector<float> logits = {1, 2, 3, 4};
    logits[at] = std::numeric_limits<float>::quiet_NaN();
    uint32_t picks[2];
    float weights[2];
    route(logits, 0.02F, picks, weights);
    EXPECT_LT(picks[0], 4U);
    EXPECT_LT(picks[1], 4U);
    EXPECT_NE(picks[0], picks[1]);
    EXPECT_TRUE(std::isnan(weights[0])) << at;
  }
}

TEST_P(Moe, ValuesOfOnePassAreTheReferences) {
  const auto engine = this->engine();
  const std::pair<const char*, Site> kOfLayer[] = {
      {"attention_output", Site::kAttentionOutput}, {"layer_mid", Site::kLayerMid},
      {"mlp_norm_output", Site::kMlpNormOutput},    {"router_logits", Site::kRouterLogits},
      {"router_weights", Site::kRouterWeights},     {"mlp_output", Site::kMlpOutput},
      {"layer_output", Site::kLayerOutput}};
  for (const Json& entry : cases_["values"]) {
    const auto file = entry["file"].get<std::string>();
    const TensorMap expected = read_tensors(folder_ / file);
    SiteRecorder recorder;
    const auto actual = logits(*engine, entry["ids"].get<std::vector<TokenId>>(), 0, &recorder);
    EXPECT_TRUE(close_to_reference(actual, expected.floats.at("logits"))) << file;
    EXPECT_TRUE(close_to_reference(recorder.at(Site::kFinalNormOutput),
                                   expected.floats.at("final_norm_output")))
        << file;
    for (size_t layer = 0; layer < model_->info().num_layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      for (const auto& [name, site] : kOfLayer) {
        EXPECT_TRUE(close_to_reference(recorder.at(site, layer), expected.floats.at(prefix + name)))
            << file << " " << prefix << name;
      }
      const std::vector<float>& picks = recorder.at(Site::kRouterExperts, layer);
      EXPECT_EQ(std::vector<int64_t>(picks.begin(), picks.end()),
                expected.integers.at(prefix + "router_experts"))
          << file;
      // What exists for each expert only has no value of the block.
      EXPECT_FALSE(recorder.has(Site::kMlpActivation, layer));
      EXPECT_FALSE(recorder.has(Site::kGateUpOutput, layer));
    }
  }
}

TEST_P(Moe, GreedyTokensAndStepLogitsAreTheReferences) { check_generation(); }

TEST_P(Moe, NothingBesideARowChangesItsBits) {
  check_same_bits({});
  check_same_bits({.kv = "f16"});
}

// As one who edits router_logits sees it.
class RouteTo : public RunTaps {
 public:
  RouteTo(size_t first, size_t second) : first_(first), second_(second) {}
  SiteMask sites(size_t) const override {
    return mask_of(Site::kRouterLogits) | mask_of(Site::kRouterExperts);
  }
  void visit(Site site, size_t, const SiteRows& rows) override {
    for (size_t r = 0; r < rows.rows; ++r) {
      float* row = rows.data + r * rows.stride;
      if (site == Site::kRouterLogits) {
        std::fill(row, row + rows.width, -1.0F);
        row[first_] = 9;
        row[second_] = 4;
      } else {
        EXPECT_EQ(row[0], static_cast<float>(first_));
        EXPECT_EQ(row[1], static_cast<float>(second_));
        ++seen;
      }
    }
  }
  size_t seen = 0;

 private:
  size_t first_, second_;
};

TEST_P(Moe, TheChoiceFollowsEditedRouterLogits) {
  const auto engine = this->engine();
  const auto ids = long_prompt();
  RouteTo to(3, 0);
  SiteRecorder nothing;
  const auto edited = logits(*engine, ids, 0, &to);
  EXPECT_EQ(to.seen, ids.size() * model_->info().num_layers);
  EXPECT_NE(edited, logits(*engine, ids));
  // Both weights are 1 now, so that the order of the picks does not matter.
  RouteTo swapped(0, 3);
  EXPECT_EQ(logits(*engine, ids, 0, &swapped), edited);
  EXPECT_EQ(logits(*engine, ids, 0, &nothing), logits(*engine, ids)) << "observing changes nothing";
}

TEST_P(Moe, OtherWeightTypesRunAndTheRouterKeepsItsOwn) {
  const auto exact = logits(*engine(), long_prompt());
  for (const char* type : {"q8_0", "q4_0", "bf16"}) {
    LoadOptions options;
    options.weights = type;
    auto loaded = Model::load(folder_, options);
    ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
    model_ = *loaded;
    check_same_bits({});
    EXPECT_EQ(model_->info().weight_types.size(), 2U);
    const auto actual = logits(*engine(), long_prompt());
    double squares = 0, all = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      squares += (double{actual[i]} - double{exact[i]}) * (double{actual[i]} - double{exact[i]});
      all += double{exact[i]} * double{exact[i]};
    }
    // A random model is far from robust: most of a 4-bit error stays. It is not another model.
    EXPECT_LT(squares, all * (std::string(type) == "q4_0" ? 0.5 : 0.02)) << type;
  }
}

TEST_P(Moe, TheDescriptionSaysWhatATokenReads) {
  const ModelInfo& info = model_->info();
  EXPECT_EQ(info.experts, 4U);
  EXPECT_EQ(info.experts_per_token, 2U);
  EXPECT_NEAR(info.rope_magnitude, 1.243163121016122, 1e-12);
  // Half of the experts are not read for a token, nor is the embedding but for a row.
  const uint64_t expert = 3UL * info.hidden_size * info.intermediate_size * sizeof(float);
  const uint64_t resting =
      info.num_layers * 2 * expert + (info.vocab_size - 1UL) * info.hidden_size * sizeof(float);
  EXPECT_EQ(info.bytes_per_token, info.weight_bytes - resting);
}

}  // namespace
}  // namespace phidias::test
