#include "model/blocks/residual.h"

namespace phidias {

void norm_stream(const BlockArgs& args, const std::vector<float>& weight) {
  StepState& state = args.state;
  const size_t width = args.spec.width;
  state.normed.resize(state.rows, width);
  args.context.threads->run(state.rows, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      args.context.kernels->rms_norm(state.stream.data() + r * width, weight.data(),
                                     args.spec.norm_epsilon, state.normed.row(r), width);
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
