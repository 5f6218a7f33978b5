// Phi-3-small's block-sparse layers, scales and masked ids against their reference.
#include "phidias/generation.h"
#include "support/reference_model.h"

namespace phidias::test {
namespace {

class Small : public ReferenceModel {};
INSTANTIATE_TEST_SUITE_P(Folders, Small,
                         ::testing::Values("phi3small-8k", "phi3small-128k", "phi3small-vocab"),
                         folder_name);

const std::pair<const char*, Site> kOfLayer[] = {
    {"layer_input", Site::kLayerInput},
    {"attention_norm_output", Site::kAttentionNormOutput},
    {"qkv_output", Site::kQkvOutput},
    {"attention_head_outputs", Site::kAttentionHeadOutputs},
    {"attention_premix", Site::kAttentionPremix},
    {"attention_output", Site::kAttentionOutput},
    {"layer_mid", Site::kLayerMid},
    {"mlp_norm_output", Site::kMlpNormOutput},
    {"mlp_input", Site::kMlpInput},
    {"gate_up_output", Site::kGateUpOutput},
    {"mlp_activation", Site::kMlpActivation},
    {"mlp_neurons", Site::kMlpNeurons},
    {"mlp_output", Site::kMlpOutput},
    {"layer_output", Site::kLayerOutput}};

void check_layer(const SiteRecorder& recorder, const TensorMap& expected, size_t layer,
                 const ModelInfo& info, const std::string& where) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  for (const auto& [name, site] : kOfLayer) {
    const auto want = expected.floats.find(prefix + name);
    if (want == expected.floats.end()) continue;
    EXPECT_TRUE(close_to_reference(recorder.at(site, layer), want->second))
        << where << " " << prefix << name;
  }
  for (const auto& [name, site, heads] :
       {std::tuple("attention_queries", Site::kAttentionQueries, info.num_heads),
        std::tuple("attention_keys", Site::kAttentionKeys, info.num_kv_heads),
        std::tuple("attention_values", Site::kAttentionValues, info.num_kv_heads)}) {
    const auto want = expected.floats.find(prefix + name);
    if (want == expected.floats.end()) continue;
    EXPECT_TRUE(
        close_to_reference(by_head(recorder.at(site, layer), heads, info.head_dim), want->second))
        << where << " " << prefix << name;
  }
}

TEST_P(Small, ValuesOfOnePassAreTheReferences) {
  const auto engine = this->engine();
  for (const Json& entry : cases_["values"]) {
    const auto file = entry["file"].get<std::string>();
    const TensorMap expected = read_tensors(folder_ / file);
    SiteRecorder recorder;
    const auto actual = logits(*engine, entry["ids"].get<std::vector<TokenId>>(), 0, &recorder);
    // A large vocabulary has those of the last position alone.
    const std::vector<float>& want = expected.floats.at("logits");
    EXPECT_TRUE(close_to_reference(std::span(actual).last(want.size()), want)) << file;
    for (const auto& [name, site] : {std::pair("token_embeddings", Site::kTokenEmbeddings),
                                     std::pair("final_norm_output", Site::kFinalNormOutput),
                                     std::pair("lm_head_output", Site::kLmHeadOutput)}) {
      if (!expected.floats.contains(name)) continue;
      EXPECT_TRUE(close_to_reference(recorder.at(site), expected.floats.at(name)))
          << file << " " << name;
    }
    for (size_t layer = 0; layer < model_->info().num_layers; ++layer)
      check_layer(recorder, expected, layer, model_->info(), file);
    EXPECT_EQ(logits(*engine, entry["ids"].get<std::vector<TokenId>>()), actual)
        << "observing changes nothing";
  }
}

TEST_P(Small, RowsOfAGroupAreItsQueriesItsKeyAndItsValue) {
  const ModelInfo& info = model_->info();
  SiteRecorder recorder;
  const auto ids = long_prompt();
  logits(*engine(), ids, 0, &recorder);
  const std::vector<float>& theirs = recorder.at(Site::kQkvOutput, 1);
  const std::vector<float>& ours = recorder.at(Site::kPreRotary, 1);
  const size_t dim = info.head_dim;
  const size_t group = info.num_heads / info.num_kv_heads;
  const size_t width = (info.num_heads + 2 * info.num_kv_heads) * dim;
  ASSERT_EQ(theirs.size(), ids.size() * width);
  const auto expect_head = [&](size_t row, size_t of_ours, size_t of_theirs) {
    for (size_t i = 0; i < dim; ++i)
      ASSERT_EQ(ours[row * width + of_ours * dim + i], theirs[row * width + of_theirs * dim + i]);
  };
  for (size_t row = 0; row < ids.size(); ++row) {
    for (size_t head = 0; head < info.num_heads; ++head)
      expect_head(row, head, head / group * (group + 2) + head % group);
    for (size_t kv = 0; kv < info.num_kv_heads; ++kv) {
      expect_head(row, info.num_heads + kv, kv * (group + 2) + group);
      expect_head(row, info.num_heads + info.num_kv_heads + kv, kv * (group + 2) + group + 1);
    }
  }
}

TEST_P(Small, GreedyTokensAndStepLogitsAreTheReferencesUnderEveryPolicy) { check_generation(); }

TEST_P(Small, NothingBesideARowChangesItsBits) {
  check_same_bits({});
  check_same_bits({.kv = "f16"});
  check_same_bits({.kv = "q8"});
  // Blocks of keys need not fit the pages of the cache.
  check_same_bits({.page_positions = 7});
}

TEST(SmallPatterns, HeadsSeeTheBlocksThatThePublishedRuleGivesThem) {
  for (const char* folder : {"phi3small-8k", "phi3small-128k", "phi3small-vocab"}) {
    const auto path = reference(std::filesystem::path("models") / folder / "patterns.json");
    PHIDIAS_NEEDS_REFERENCE(path);
    for (const Json& pattern : read_json(path)) {
      const auto heads = pattern["num_heads"].get<uint32_t>();
      BlockSparse blocks;
      blocks.block = pattern["block_size"];
      blocks.local_blocks = pattern["num_local_blocks"];
      blocks.stride = pattern["vert_stride"];
      blocks.head_step =
          pattern["homo_head_pattern"].get<bool>() ? 0 : std::max(1U, blocks.stride / heads);
      for (const auto& [head, rows] : pattern["heads"].items()) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto query_block = pattern["query_blocks"][i].get<size_t>();
          const auto want = rows[i].get<std::string>();
          std::string got;
          for (size_t key_block = 0; key_block <= query_block; ++key_block) {
            const bool seen = blocks.sees_block(std::stoul(head), query_block, key_block);
            got += seen ? '1' : '0';
            const uint64_t word = blocks.bits(std::stoul(head), query_block, key_block / 64);
            EXPECT_EQ((word >> (key_block % 64)) & 1, seen ? 1U : 0U);
          }
          EXPECT_EQ(got, want) << folder << " head " << head << " query block " << query_block;
        }
      }
    }
  }
}

TEST_P(Small, OtherWeightTypesRun) {
  if (model_->info().hidden_size % 32 != 0) GTEST_SKIP() << "rows of no whole blocks";
  for (const char* type : {"q8_0", "q4_0"}) {
    LoadOptions options;
    options.weights = type;
    auto loaded = Model::load(folder_, options);
    if (!loaded.ok()) {  // 112 neurons are no whole blocks
      EXPECT_EQ(loaded.error().code, Code::kUnsupported);
      continue;
    }
    model_ = *loaded;
    check_same_bits({});
  }
}

TEST_P(Small, MaskedIdsAreNeverDrawn) {
  if (model_->info().vocab_size < 100352) GTEST_SKIP() << "its vocabulary ends before these ids";
  const auto engine = this->engine();
  GenerateRequest request;
  request.prompt = cases_["values"][0]["ids"].get<std::vector<TokenId>>();
  request.max_tokens = 200;
  request.stop_ids.emplace();  // none
  // Nearly uniform, and penalties that a finite lowest logit must survive.
  request.sampling.temperature = 8;
  request.sampling.repetition_penalty = 1.3;
  request.sampling.frequency_penalty = 0.5;
  const auto result = generate(*engine, request);
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  ASSERT_EQ(result->choices[0].tokens.size(), 200U);
  std::set<TokenId> drawn;
  for (const GeneratedToken& token : result->choices[0].tokens) {
    const TokenId id = token.id;
    EXPECT_TRUE(id < 100256 || id == 100257 || (id >= 100261 && id <= 100263) || id == 100266)
        << id;
    drawn.insert(id);
  }
  EXPECT_GT(drawn.size(), 100U);
}

TEST_P(Small, TheDescriptionNamesTheSparseLayers) {
  const ModelInfo& info = model_->info();
  EXPECT_EQ(info.sparse_block, 4U);
  size_t sparse = 0;
  for (const Json& layer : cases_["layers"]) sparse += layer == "sparse" ? 1U : 0U;
  EXPECT_EQ(info.sparse_layers, sparse);
}

}  // namespace
}  // namespace phidias::test
