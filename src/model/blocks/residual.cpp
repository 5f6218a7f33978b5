#include "model/blocks/residual.h"

namespace phidias {

void normalize(const ModelSpec& spec, const KernelTable& kernels, const float* x,
               const std::vector<float>& weight, const std::vector<float>& bias, float* y) {
  switch (spec.norm) {
    case Norm::kRms:
      kernels.rms_norm(x, weight.data(), spec.norm_epsilon, y, spec.width);
      return;
    case Norm::kLayer:
      kernels.layer_norm(x, weight.data(), bias.data(), spec.norm_epsilon, y, spec.width);
      return;
  }
}

void norm_stream(const BlockArgs& args, const std::vector<float>& weight,
                 const std::vector<float>& bias) {
  StepState& state = args.state;
  const size_t width = args.spec.width;
  state.normed.resize(state.rows, width);
  args.context.threads->run(state.rows, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      normalize(args.spec, *args.context.kernels, state.stream.data() + r * width, weight, bias,
                state.normed.row(r));
    }
  });
}

void add_contribution(const BlockArgs& args) {
  StepState& state = args.state;
  const size_t width = args.spec.width;
  args.context.threads->run(state.rows, 1, [&](size_t begin, size_t end, size_t) {
    args.context.kernels->add(state.stream.data() + begin * width,
                              state.contribution.data() + begin * width, (end - begin) * width);
  });
}

}  // namespace phidias
