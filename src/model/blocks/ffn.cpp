#include "model/blocks/ffn.h"

#include <algorithm>

#include "model/blocks/residual.h"

namespace phidias {
namespace {

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

void ffn_block(const BlockArgs& args) {
  StepState& state = args.state;
  norm_stream(args, args.weights.ffn_norm);
  state.gate_up.ensure(state.rows * 2 * args.spec.ffn_width);
  linear(args.context, args.weights.gate_up, state.normed, state.gate_up.data(),
         2 * args.spec.ffn_width);
  activate(args);
  state.contribution.ensure(state.rows * args.spec.width);
  linear(args.context, args.weights.down, state.neurons, state.contribution.data(),
         args.spec.width);
  add_contribution(args);
}

}  // namespace phidias
