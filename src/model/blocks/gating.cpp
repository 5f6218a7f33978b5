#include "model/blocks/gating.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace phidias {
namespace {

// Neurons [from, to) of one row.
void activate_part(const KernelTable& kernels, const ModelSpec& spec, const float* gate_up,
                   size_t from, size_t to, float* neurons) {
  switch (spec.gating) {
    case Gating::kSilu:
      kernels.silu_mul(gate_up + from, gate_up + spec.ffn_width + from, neurons + from, to - from);
      return;
    case Gating::kGegelu:
      kernels.gegelu(gate_up + 2 * from, spec.gating_limit, neurons + from, to - from);
      return;
  }
}

// As the kernel clamps it.
float clamped(float up, float limit) {
  return std::isinf(up) ? up : up > limit ? limit : up < -limit ? -limit : up;
}

}  // namespace

void activate(RunContext& context, const ModelSpec& spec, const float* gate_up,
              Activations& neurons) {
  // Shared out in units of a few cache lines within a row, so that one row alone is shared by all
  // threads too.
  constexpr size_t kUnit = 64;
  const size_t width = spec.ffn_width;
  const size_t units = (width + kUnit - 1) / kUnit;
  context.threads->run(neurons.rows() * units, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t unit = begin; unit < end;) {
      const size_t row = unit / units;
      const size_t stop = std::min(end, (row + 1) * units);
      const size_t from = (unit - row * units) * kUnit;
      const size_t to = std::min((stop - row * units) * kUnit, width);
      activate_part(*context.kernels, spec, gate_up + row * 2 * width, from, to, neurons.row(row));
      unit = stop;
    }
  });
}

void activate_gates(const KernelTable& kernels, const ModelSpec& spec, const float* gate_up,
                    Activations& neurons) {
  // Both kernels multiply last: by 1 here, which changes no bit.
  const size_t width = spec.ffn_width;
  const bool alternating = spec.gating == Gating::kGegelu;
  std::vector<float> branches(2 * width, alternating ? 0.0F : 1.0F);
  for (size_t row = 0; row < neurons.rows(); ++row) {
    const float* from = gate_up + row * 2 * width;
    if (alternating) {
      for (size_t i = 0; i < width; ++i) branches[2 * i] = from[2 * i];
    } else {
      std::copy(from, from + width, branches.begin());
    }
    activate_part(kernels, spec, branches.data(), 0, width, neurons.row(row));
  }
}

void multiply_branch(const ModelSpec& spec, const float* gate_up, Activations& neurons) {
  const size_t width = spec.ffn_width;
  for (size_t row = 0; row < neurons.rows(); ++row) {
    const float* from = gate_up + row * 2 * width;
    float* to = neurons.row(row);
    for (size_t i = 0; i < width; ++i) {
      to[i] *= spec.gating == Gating::kGegelu ? clamped(from[2 * i + 1], spec.gating_limit) + 1.0F
                                              : from[width + i];
    }
  }
}

}  // namespace phidias
