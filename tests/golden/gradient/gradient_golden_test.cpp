#include <algorithm>
#include <cmath>
#include <map>

#include "gradient/collector.h"
#include "support/checkpoint_model.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias {
namespace {

const std::map<std::string, Site>& sites_by_name() {
  static const std::map<std::string, Site> sites = {
      {"token_embeddings", Site::kTokenEmbeddings},
      {"layer_input", Site::kLayerInput},
      {"attention_norm_output", Site::kAttentionNormOutput},
      {"qkv_output", Site::kQkvOutput},
      {"attention_queries", Site::kAttentionQueries},
      {"attention_keys", Site::kAttentionKeys},
      {"attention_values", Site::kAttentionValues},
      {"attention_scores", Site::kAttentionScores},
      {"attention_probabilities", Site::kAttentionProbabilities},
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
      {"layer_output", Site::kLayerOutput},
      {"final_norm_output", Site::kFinalNormOutput},
      {"lm_head_output", Site::kLmHeadOutput},
      {"logits", Site::kLogits}};
  return sites;
}

// "value_grad.layers.2.layer_mid" or "value_grad.token_embeddings".
GradientPlace place_of(std::string name) {
  name = name.substr(std::string("value_grad.").size());
  if (name.rfind("layers.", 0) != 0) return {sites_by_name().at(name), 0};
  const size_t dot = name.find('.', 7);
  return {sites_by_name().at(name.substr(dot + 1)), std::stoul(name.substr(7, dot - 7))};
}

// [1, heads, N, dim] of the file to rows [N, heads * dim].
std::vector<float> rows_of(const std::vector<float>& values, const std::vector<uint64_t>& shape,
                           Site site) {
  if (site != Site::kAttentionQueries && site != Site::kAttentionKeys &&
      site != Site::kAttentionValues) {
    return values;
  }
  const size_t heads = shape[1], positions = shape[2], dim = shape[3];
  std::vector<float> rows(values.size());
  for (size_t h = 0; h < heads; ++h) {
    for (size_t p = 0; p < positions; ++p) {
      std::copy_n(values.data() + (h * positions + p) * dim, dim,
                  rows.data() + (p * heads + h) * dim);
    }
  }
  return rows;
}

class GradientReference : public testing::TestWithParam<const char*> {};

TEST_P(GradientReference, GradientsOfALogitDifferenceAreTheReferencesAtEveryValue) {
  const auto folder = test::reference(std::filesystem::path("models") / GetParam());
  PHIDIAS_NEEDS_REFERENCE(folder / "train.safetensors");
  const auto expected = test::read_tensors(folder / "train.safetensors");
  const Json cases = test::read_json(folder / "cases.json");
  const auto tokens = cases["train"]["sequences"][0].get<std::vector<int32_t>>();
  const test::CheckpointModel model = test::read_model(folder);

  std::vector<GradientPlace> wanted;
  for (const auto& [name, values] : expected.floats) {
    if (name.rfind("value_grad.", 0) == 0) wanted.push_back(place_of(name));
  }
  ASSERT_GT(wanted.size(), 20U);
  ThreadPool threads(2);
  RunContext context(best_table(), threads, Numerics::kExact);
  auto run = run_and_store(model.spec, model.weights, context, tokens,
                           rotary_factors_for(model.spec.rope, tokens.size()));
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  GradientCollector collector(model.spec, tokens.size(),
                              logit_difference(11, 22, static_cast<uint32_t>(tokens.size() - 1)),
                              wanted);
  const Status status =
      run_backward(model.spec, model.weights, best_table(), threads, *run, nullptr, collector);
  ASSERT_TRUE(status.ok()) << status.error().to_string();

  double furthest = 0;
  for (const auto& [name, values] : expected.floats) {
    if (name.rfind("value_grad.", 0) != 0) continue;
    const GradientPlace place = place_of(name);
    const auto reference = rows_of(values, expected.shapes.at(name), place.site);
    const std::vector<float>& actual = collector[place].values;
    ASSERT_EQ(actual.size(), reference.size()) << name;
    double largest = 0;
    double distance = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
      largest = std::max(largest, std::abs(double{reference[i]}));
      distance = std::max(distance, std::abs(double{actual[i]} - double{reference[i]}));
    }
    // The reference itself is up to 6.3e-6 of the largest entry away from its float64 twin.
    EXPECT_LT(distance, 2e-5 * largest) << name;
    furthest = std::max(furthest, distance / largest);
  }
  RecordProperty("largest_relative_distance", std::to_string(furthest));
}

INSTANTIATE_TEST_SUITE_P(Variants, GradientReference,
                         testing::Values("mini-4k", "medium-4k", "mini-128k", "medium-128k-su",
                                         "phi-4-mini", "phi-4"),
                         test::folder_name);

}  // namespace
}  // namespace phidias
