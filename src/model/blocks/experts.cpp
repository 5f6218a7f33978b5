#include "model/blocks/experts.h"

#include <cstring>

#include "model/blocks/gating.h"
#include "model/blocks/routing.h"

namespace phidias {
namespace {

constexpr size_t kPerRow = ExpertsSpec::kPerRow;

template <class Taps>
void route_rows(const BlockArgs& args, Taps& taps) {
  StepState& state = args.state;
  ExpertState& experts = state.experts;
  const size_t count = args.spec.experts->count;
  experts.logits.ensure(state.rows * count);
  linear(args.context, args.weights.router, state.normed, experts.logits.data(), count);
  taps.at(Site::kRouterLogits, experts.logits.data(), count, count);

  experts.picks.resize(state.rows * kPerRow);
  experts.weights.ensure(state.rows * kPerRow);
  for (size_t r = 0; r < state.rows; ++r) {
    route({experts.logits.data() + r * count, count}, args.spec.experts->band,
          experts.picks.data() + r * kPerRow, experts.weights.data() + r * kPerRow);
  }
  if (taps.wants(Site::kRouterExperts)) {
    std::vector<float> numbers(experts.picks.begin(), experts.picks.end());
    taps.at(Site::kRouterExperts, numbers.data(), kPerRow, kPerRow);
  }
  taps.at(Site::kRouterWeights, experts.weights.data(), kPerRow, kPerRow);
}

// Numbers the passes expert by expert and, for each, row by row.
void sort_passes(ExpertState& experts, size_t count) {
  experts.begin.assign(count + 1, 0);
  for (const uint32_t pick : experts.picks) ++experts.begin[pick + 1];
  for (size_t e = 0; e < count; ++e) experts.begin[e + 1] += experts.begin[e];
  experts.next.assign(experts.begin.begin(), experts.begin.end() - 1);
  experts.passes.resize(experts.picks.size());
  for (size_t i = 0; i < experts.picks.size(); ++i)
    experts.passes[i] = static_cast<uint32_t>(experts.next[experts.picks[i]]++);
}

void product(const BlockArgs& args, Matrix ExpertWeights::*matrix, Activations& x, float* y,
             size_t y_stride) {
  const std::vector<size_t>& begin = args.state.experts.begin;
  std::vector<RowGroup>& groups = args.state.experts.groups;
  groups.clear();
  for (size_t e = 0; e + 1 < begin.size(); ++e) {
    if (begin[e] < begin[e + 1])
      groups.push_back({&(args.weights.experts[e].*matrix), begin[e], begin[e + 1] - begin[e]});
  }
  linear_groups(args.context, groups, x, y, y_stride);
}

}  // namespace

template <class Taps>
void experts_contribution(const BlockArgs& args, Taps& taps) {
  StepState& state = args.state;
  ExpertState& experts = state.experts;
  RunContext& context = args.context;
  const size_t width = args.spec.width;
  const size_t ffn_width = args.spec.ffn_width;
  route_rows(args, taps);
  sort_passes(experts, args.spec.experts->count);

  const size_t passes = state.rows * kPerRow;
  experts.inputs.resize(passes, width);
  context.threads->run(state.rows, 1, [&](size_t first, size_t end, size_t) {
    for (size_t i = first * kPerRow; i < end * kPerRow; ++i) {
      std::memcpy(experts.inputs.row(experts.passes[i]), state.normed.row(i / kPerRow),
                  width * sizeof(float));
    }
  });
  state.gate_up.ensure(passes * 2 * ffn_width);
  product(args, &ExpertWeights::gate_up, experts.inputs, state.gate_up.data(), 2 * ffn_width);
  state.neurons.resize(passes, ffn_width);
  activate(context, args.spec, state.gate_up.data(), state.neurons);
  experts.outputs.ensure(passes * width);
  product(args, &ExpertWeights::down, state.neurons, experts.outputs.data(), width);

  // One order of addition, first pick and second, whatever else a step holds.
  context.threads->run(state.rows, 1, [&](size_t first, size_t end, size_t) {
    for (size_t r = first; r < end; ++r) {
      const float* a = experts.outputs.data() + experts.passes[r * kPerRow] * width;
      const float* b = experts.outputs.data() + experts.passes[r * kPerRow + 1] * width;
      const float a_weight = experts.weights.data()[r * kPerRow];
      const float b_weight = experts.weights.data()[r * kPerRow + 1];
      float* sum = state.contribution.data() + r * width;
      for (size_t i = 0; i < width; ++i) sum[i] = a_weight * a[i] + b_weight * b[i];
    }
  });
}

template void experts_contribution<NoTaps>(const BlockArgs&, NoTaps&);
template void experts_contribution<StepTaps>(const BlockArgs&, StepTaps&);

}  // namespace phidias
