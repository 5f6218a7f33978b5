// The network written out plainly in double, sharing no code with the library but its data: what
// gradients are compared with.
#pragma once

#include <functional>
#include <vector>

#include "model/rope.h"
#include "model/taps.h"
#include "random_model.h"

namespace phidias::test {

class DoubleNetwork {
 public:
  explicit DoubleNetwork(const RandomModel& model);

  // Sees each value in turn and may write it: [N, width], patterns [heads, N, N] (hidden scores are
  // the lowest finite float).
  using Visit = std::function<void(Site, size_t layer, std::vector<double>&)>;

  // Logits [N, V].
  std::vector<double> logits(const std::vector<int32_t>& tokens, RotaryFactors factors,
                             const Visit& visit) const;

 private:
  struct Weights {
    size_t rows = 0;
    size_t cols = 0;
    std::vector<double> values;
    std::vector<double> bias;  // or empty
  };
  struct NormWeights {
    std::vector<double> weight, bias;
  };
  struct Layer {
    NormWeights attention_norm, ffn_norm;
    Weights qkv, attention_output, gate_up, down, router;
    std::vector<std::pair<Weights, Weights>> experts;  // gate_up and down
  };

  static Weights decode(const Matrix& matrix, const std::vector<float>& bias);
  static std::vector<double> multiply(const Weights& weights, const std::vector<double>& x);
  std::vector<double> normalize(const NormWeights& norm, const std::vector<double>& x) const;
  // Activated gates [N, F], then what they are multiplied with.
  std::vector<double> activate(const std::vector<double>& gate_up) const;
  std::vector<double> other_branch(const std::vector<double>& gate_up) const;
  // [N, width] through the two experts that each row picks.
  std::vector<double> mixture(size_t index, const std::vector<double>& x, const Visit& visit) const;
  void rotate(std::vector<double>& qkv, size_t positions, RotaryFactors factors) const;
  std::vector<double> attend(size_t layer, const std::vector<double>& qkv, size_t positions,
                             const Visit& visit) const;

  const ModelSpec* spec_;
  NormWeights final_norm_;
  Weights embedding_, head_;
  std::vector<Layer> layers_;
};

}  // namespace phidias::test
