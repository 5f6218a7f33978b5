#include "model/blocks/ffn.h"

#include "model/blocks/experts.h"
#include "model/blocks/gating.h"
#include "model/blocks/residual.h"

namespace phidias {
namespace {

template <class Taps>
void dense_contribution(const BlockArgs& args, Taps& taps) {
  StepState& state = args.state;
  const LayerWeights& weights = args.weights;
  const size_t ffn_width = args.spec.ffn_width;
  state.gate_up.ensure(state.rows * 2 * ffn_width);
  linear(args.context, weights.gate_up, state.normed, state.gate_up.data(), 2 * ffn_width,
         weights.gate_up_bias);
  taps.at(Site::kGateUpOutput, state.gate_up.data(), 2 * ffn_width, 2 * ffn_width);
  state.neurons.resize(state.rows, ffn_width);
  if (taps.wants(Site::kMlpActivation)) {
    activate_gates(*args.context.kernels, args.spec, state.gate_up.data(), state.neurons);
    taps.at(Site::kMlpActivation, state.neurons.row(0), ffn_width, ffn_width);
    multiply_branch(args.spec, state.gate_up.data(), state.neurons);
  } else {
    activate(args.context, args.spec, state.gate_up.data(), state.neurons);
  }
  taps.at(Site::kMlpNeurons, state.neurons.row(0), ffn_width, ffn_width);
  linear(args.context, weights.down, state.neurons, state.contribution.data(), args.spec.width,
         weights.down_bias);
}

}  // namespace

template <class Taps>
void ffn_block(const BlockArgs& args, Taps& taps) {
  StepState& state = args.state;
  const size_t width = args.spec.width;
  norm_stream(args, args.weights.ffn_norm, args.weights.ffn_norm_bias);
  taps.at(Site::kMlpNormOutput, state.normed.row(0), width, width);
  taps.at(Site::kMlpInput, state.normed.row(0), width, width);
  state.contribution.ensure(state.rows * width);
  if (args.spec.experts) {
    experts_contribution(args, taps);
  } else {
    dense_contribution(args, taps);
  }
  taps.at(Site::kMlpOutput, state.contribution.data(), width, width);
  add_contribution(args);
  taps.at(Site::kLayerOutput, state.stream.data(), width, width);
}

template void ffn_block<NoTaps>(const BlockArgs&, NoTaps&);
template void ffn_block<StepTaps>(const BlockArgs&, StepTaps&);

}  // namespace phidias
