#include "model/blocks/ffn.h"

#include <algorithm>

#include "model/blocks/residual.h"

namespace phidias {
namespace {

// The same in two steps with a tap between them; the same bits, since the fused kernel rounds
// silu(gate) too. The activation takes the place of the gate.
template <class Taps>
void activate_with_tap(const BlockArgs& args, Taps& taps) {
  StepState& state = args.state;
  const size_t ffn_width = args.spec.ffn_width;
  const std::vector<float> ones(ffn_width, 1.0F);
  for (size_t row = 0; row < state.rows; ++row) {
    float* gate = state.gate_up.data() + row * 2 * ffn_width;
    args.context.kernels->silu_mul(gate, ones.data(), gate, ffn_width);
  }
  taps.at(Site::kMlpActivation, state.gate_up.data(), 2 * ffn_width, ffn_width);
  state.neurons.resize(state.rows, ffn_width);
  for (size_t row = 0; row < state.rows; ++row) {
    const float* gate = state.gate_up.data() + row * 2 * ffn_width;
    float* neurons = state.neurons.row(row);
    for (size_t i = 0; i < ffn_width; ++i) neurons[i] = gate[ffn_width + i] * gate[i];
  }
}

// state.neurons = up * silu(gate), shared out in units of a few cache lines within a row, so that
// one row alone is shared by all threads too.
void activate(const BlockArgs& args) {
  constexpr size_t kUnit = 64;
  StepState& state = args.state;
  const size_t ffn_width = args.spec.ffn_width;
  const size_t units = (ffn_width + kUnit - 1) / kUnit;
  state.neurons.resize(state.rows, ffn_width);
  args.context.threads->run(state.rows * units, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t unit = begin; unit < end;) {
      const size_t row = unit / units;
      const size_t stop = std::min(end, (row + 1) * units);
      const size_t from = (unit - row * units) * kUnit;
      const size_t to = std::min((stop - row * units) * kUnit, ffn_width);
      const float* gate = state.gate_up.data() + row * 2 * ffn_width;
      args.context.kernels->silu_mul(gate + from, gate + ffn_width + from,
                                     state.neurons.row(row) + from, to - from);
      unit = stop;
    }
  });
}

}  // namespace

template <class Taps>
void ffn_block(const BlockArgs& args, Taps& taps) {
  StepState& state = args.state;
  const size_t width = args.spec.width;
  const size_t ffn_width = args.spec.ffn_width;
  norm_stream(args, args.weights.ffn_norm);
  taps.at(Site::kMlpNormOutput, state.normed.row(0), width, width);
  taps.at(Site::kMlpInput, state.normed.row(0), width, width);
  state.gate_up.ensure(state.rows * 2 * ffn_width);
  linear(args.context, args.weights.gate_up, state.normed, state.gate_up.data(), 2 * ffn_width);
  taps.at(Site::kGateUpOutput, state.gate_up.data(), 2 * ffn_width, 2 * ffn_width);
  if (taps.wants(Site::kMlpActivation)) {
    activate_with_tap(args, taps);
  } else {
    activate(args);
  }
  taps.at(Site::kMlpNeurons, state.neurons.row(0), ffn_width, ffn_width);
  state.contribution.ensure(state.rows * width);
  linear(args.context, args.weights.down, state.neurons, state.contribution.data(), width);
  taps.at(Site::kMlpOutput, state.contribution.data(), width, width);
  add_contribution(args);
  taps.at(Site::kLayerOutput, state.stream.data(), width, width);
}

template void ffn_block<NoTaps>(const BlockArgs&, NoTaps&);
template void ffn_block<StepTaps>(const BlockArgs&, StepTaps&);

}  // namespace phidias
