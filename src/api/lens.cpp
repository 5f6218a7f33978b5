#include "phidias/lens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "api/model_impl.h"
#include "base/try.h"
#include "engine/stepper.h"
#include "model/blocks/linear.h"
#include "model/blocks/residual.h"
#include "model/decoder.h"
#include "phidias/trace.h"
#include "trace/positions.h"

namespace phidias {
namespace {

constexpr size_t kRowsAtOnce = 16;

// Calls each(row, logits) for the rows of a residual stream, a few at a time.
template <typename Each>
Status project(Engine& engine, std::span<const float> residual, Each&& each) {
  RunContext& context = engine.stepper().context();
  const ModelSpec& spec = engine.stepper().spec();
  const ModelWeights& weights = engine.stepper().weights();
  const size_t rows = residual.size() / spec.width;
  Activations normed;
  std::vector<float> logits(std::min(rows, kRowsAtOnce) * spec.vocab);
  for (size_t first = 0; first < rows; first += kRowsAtOnce) {
    if (engine.stepper().interrupted())
      return Error{Code::kCancelled, "the work was interrupted", {}};
    const size_t count = std::min(kRowsAtOnce, rows - first);
    normed.resize(count, spec.width);
    for (size_t r = 0; r < count; ++r) {
      normalize(spec, *context.kernels, residual.data() + (first + r) * spec.width,
                weights.final_norm, weights.final_norm_bias, normed.row(r));
    }
    linear(context, weights.head, normed, logits.data(), spec.vocab, weights.head_bias);
    for (size_t r = 0; r < count; ++r) {
      float* row = logits.data() + r * spec.vocab;
      if (spec.logit_divisor != 1 || !spec.masked_ids.empty()) finish_logits(spec, row);
      each(first + r, std::span<const float>(row, spec.vocab));
    }
  }
  return {};
}

}  // namespace

Result<Tensor> project_on_vocab(Engine& engine, std::span<const float> residual) {
  const size_t width = engine.stepper().spec().width;
  if (residual.size() % width != 0 || residual.empty()) {
    return Error{
        Code::kInvalidArgument,
        std::to_string(residual.size()) + " numbers are no rows of " + std::to_string(width),
        {{}, {}, "residual"}};
  }
  Tensor logits{TensorType::kF32, {residual.size() / width, engine.vocab()}, {}, {}};
  PHIDIAS_CHECK_OK(project(engine, residual, [&](size_t, std::span<const float> row) {
    logits.floats.insert(logits.floats.end(), row.begin(), row.end());
  }));
  return logits;
}

std::vector<TopToken> top_tokens(std::span<const float> logits, size_t count) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  const auto value = [&](TokenId id) { return logits[static_cast<size_t>(id)]; };
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
      [&](TokenId a, TokenId b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  std::vector<TopToken> best;
  for (size_t i = 0; i < count; ++i) {
    const double weight = std::exp(static_cast<double>(value(ids[i])) - largest);
    best.push_back({ids[i], static_cast<float>(weight / sum)});
  }
  return best;
}

Result<Lens> logit_lens(Engine& engine, std::vector<TokenId> ids, const LensOptions& options) {
  Trace trace(engine, std::move(ids));
  trace.read(kValues.layers.all().layer_output.at(options.at));
  trace.edit(options.edits);
  PHIDIAS_TRY(const Traced traced, trace.run());
  Lens lens;
  lens.layers = traced.entries.size();
  const size_t count = traced.entries.front().tensor.shape[1];
  PHIDIAS_TRY(const PositionSet chosen,
              PositionSet::resolve(options.at, trace.ids(), trace.ids().size(), "at"));
  for (size_t i = 0; i < count; ++i)
    lens.positions.push_back(static_cast<uint32_t>(chosen.position(i)));
  lens.best.resize(lens.layers * count);
  for (size_t layer = 0; layer < lens.layers; ++layer) {
    PHIDIAS_CHECK_OK(project(engine, traced.entries[layer].tensor.floats,
                             [&](size_t row, std::span<const float> logits) {
                               lens.best[layer * count + row] = top_tokens(logits, options.top);
                             }));
  }
  return lens;
}

Result<DirectAttribution> direct_attribution(Engine& engine, std::vector<TokenId> ids, TokenId a,
                                             std::optional<TokenId> b, bool by_heads) {
  const ModelSpec& spec = engine.stepper().spec();
  const ModelWeights& weights = engine.stepper().weights();
  if (spec.norm != Norm::kRms || spec.bias.attention_output || spec.bias.head) {
    return Error{Code::kUnsupported,
                 "the model's norms or projections have biases, which belong to no part",
                 {{}, {}, spec.type}};
  }
  for (const TokenId id : {a, b.value_or(a)}) {
    if (id < 0 || static_cast<uint32_t>(id) >= spec.vocab) {
      return Error{Code::kInvalidArgument,
                   "token id " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(spec.vocab),
                   {}};
    }
  }
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

  // logit = sum over channels of x * scale * weight * head.
  const size_t width = spec.width;
  std::vector<float> row(width);
  std::vector<double> direction(width);
  const auto add_head = [&](TokenId id, double sign) {
    decode_row(weights.head, static_cast<size_t>(id), row.data());
    for (size_t c = 0; c < width; ++c) {
      direction[c] += sign * static_cast<double>(row[c]) *
                      static_cast<double>(weights.final_norm[c]) *
                      static_cast<double>(traced[scale].floats[0]) / spec.logit_divisor;
    }
  };
  add_head(a, 1);
  if (b) add_head(*b, -1);
  DirectAttribution result;
  for (const Traced::Entry& entry : traced.entries) {
    if (entry.name == "final_norm_scale" || entry.name == "logits") continue;
    const size_t vectors = entry.tensor.floats.size() / width;
    const bool heads = entry.name.ends_with("attention_head_contributions");
    for (size_t v = 0; v < vectors; ++v) {
      double value = 0;
      for (size_t c = 0; c < width; ++c)
        value += direction[c] * static_cast<double>(entry.tensor.floats[v * width + c]);
      std::string name = entry.name == "layers.0.layer_input" ? "token_embeddings" : entry.name;
      if (heads) {
        name =
            value_name(ValueId::kAttentionOutput, entry.layer) + "[head=" + std::to_string(v) + "]";
      }
      result.parts.push_back({std::move(name), value});
      result.total += value;
    }
  }
  const std::vector<float>& own = traced[logits].floats;
  result.logit = static_cast<double>(own[static_cast<size_t>(a)]);
  if (b) result.logit -= static_cast<double>(own[static_cast<size_t>(*b)]);
  return result;
}

}  // namespace phidias
