// What each part of the network adds to a logit.
#include <algorithm>
#include <numeric>

#include "api/model_impl.h"
#include "base/try.h"
#include "engine/stepper.h"
#include "phidias/lens.h"
#include "phidias/trace.h"

namespace phidias {
namespace {

// With the final norm's scale s held, logit = sum over channels of (x - mean x) s weight head, and
// what the biases add; only norms that centre take the mean off, and that is a sum as well.
class LogitDirection {
 public:
  LogitDirection(const ModelSpec& spec, const ModelWeights& weights, float scale)
      : spec_(spec), weights_(weights), scale_(scale), direction_(spec.width) {}

  void add(TokenId id, double sign) {
    std::vector<float> row(spec_.width);
    decode_row(weights_.head, static_cast<size_t>(id), row.data());
    const double factor = sign / static_cast<double>(spec_.logit_divisor);
    for (size_t c = 0; c < row.size(); ++c) {
      direction_[c] += factor * static_cast<double>(row[c]) *
                       static_cast<double>(weights_.final_norm[c]) * static_cast<double>(scale_);
      if (!weights_.final_norm_bias.empty()) {
        norm_bias_ +=
            factor * static_cast<double>(row[c]) * static_cast<double>(weights_.final_norm_bias[c]);
      }
    }
    if (!weights_.head_bias.empty())
      head_bias_ += factor * static_cast<double>(weights_.head_bias[static_cast<size_t>(id)]);
  }
  void finish() {
    if (spec_.norm != Norm::kLayer) return;
    const double mean = std::accumulate(direction_.begin(), direction_.end(), 0.0) /
                        static_cast<double>(direction_.size());
    for (double& entry : direction_) entry -= mean;
  }

  double along(const float* x) const {
    double sum = 0;
    for (size_t c = 0; c < direction_.size(); ++c) sum += direction_[c] * static_cast<double>(x[c]);
    return sum;
  }
  double norm_bias() const { return norm_bias_; }
  double head_bias() const { return head_bias_; }

 private:
  const ModelSpec& spec_;
  const ModelWeights& weights_;
  float scale_;
  std::vector<double> direction_;
  double norm_bias_ = 0;
  double head_bias_ = 0;
};

Status check_token(TokenId id, const ModelSpec& spec) {
  const auto refuse = [&](const std::string& why) {
    return Error{Code::kInvalidArgument, "token id " + std::to_string(id) + why, {}};
  };
  if (id < 0 || static_cast<uint32_t>(id) >= spec.vocab)
    return refuse(" is outside the vocabulary of " + std::to_string(spec.vocab));
  if (std::find(spec.masked_ids.begin(), spec.masked_ids.end(), id) != spec.masked_ids.end())
    return refuse(" is masked by the model: its logit is of no parts");
  return {};
}

}  // namespace

Result<DirectAttribution> direct_attribution(Engine& engine, std::vector<TokenId> ids, TokenId a,
                                             std::optional<TokenId> b, bool by_heads) {
  const ModelSpec& spec = engine.stepper().spec();
  const ModelWeights& weights = engine.stepper().weights();
  PHIDIAS_CHECK_OK(check_token(a, spec));
  PHIDIAS_CHECK_OK(check_token(b.value_or(a), spec));
  Trace trace(engine, std::move(ids));
  trace.read(kValues.layers[0].layer_input.at(kLast));
  if (by_heads) {
    trace.read(kValues.layers.all().self_attn.attention_head_contributions.at(kLast));
  } else {
    trace.read(kValues.layers.all().self_attn.attention_output.at(kLast));
  }
  trace.read(kValues.layers.all().mlp.mlp_output.at(kLast));
  const auto scale = trace.read(kValues.final_norm_scale.at(kLast));
  const auto logits = trace.read(kValues.logits.at(kLast));
  PHIDIAS_TRY(const Traced traced, trace.run());

  LogitDirection direction(spec, weights, traced[scale].floats[0]);
  direction.add(a, 1);
  if (b) direction.add(*b, -1);
  direction.finish();
  DirectAttribution result;
  const auto add = [&](std::string name, double value) {
    result.parts.push_back({std::move(name), value});
    result.total += value;
  };
  for (const Traced::Entry& entry : traced.entries) {
    if (entry.name == "final_norm_scale" || entry.name == "logits") continue;
    const bool heads = entry.name.ends_with("attention_head_contributions");
    for (size_t v = 0; v * spec.width < entry.tensor.floats.size(); ++v) {
      std::string name = entry.name == "layers.0.layer_input" ? "token_embeddings" : entry.name;
      if (heads) {
        name =
            value_name(ValueId::kAttentionOutput, entry.layer) + "[head=" + std::to_string(v) + "]";
      }
      add(std::move(name), direction.along(entry.tensor.floats.data() + v * spec.width));
    }
  }
  // Heads come without the bias that their sum gets.
  for (size_t layer = 0; by_heads && layer < weights.layers.size(); ++layer) {
    const std::vector<float>& bias = weights.layers[layer].attention_output_bias;
    if (!bias.empty())
      add("layers." + std::to_string(layer) + ".self_attn.o_proj.bias",
          direction.along(bias.data()));
  }
  if (!weights.final_norm_bias.empty()) add("norm.bias", direction.norm_bias());
  if (!weights.head_bias.empty()) add("lm_head.bias", direction.head_bias());
  const std::vector<float>& own = traced[logits].floats;
  result.logit = static_cast<double>(own[static_cast<size_t>(a)]);
  if (b) result.logit -= static_cast<double>(own[static_cast<size_t>(*b)]);
  return result;
}

}  // namespace phidias
