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

}  // namespace phidias
