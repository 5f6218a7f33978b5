// Sparse autoencoders: a vector as a few of many features.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "phidias/status.h"
#include "phidias/tensors.h"

namespace phidias {

// Of vectors x [n] with f features: feature j is max(0, encoder[j] . (x - centre) +
// encoder_bias[j]) and the reconstruction is the sum of feature * decoder[feature], plus
// decoder_bias.
struct Autoencoder {
  Tensor encoder;       // [f, n]
  Tensor encoder_bias;  // [f]
  Tensor decoder;       // [f, n]
  Tensor decoder_bias;  // [n]
  // Whether the decoder's bias is taken off before x is encoded (the centre above), else nothing.
  bool centred = false;

  size_t features() const { return encoder.shape.empty() ? 0 : encoder.shape.front(); }
  size_t width() const { return decoder_bias.floats.size(); }
  // kInvalidArgument where the four do not fit together.
  Status check() const;
  // x [n].
  float feature(size_t index, std::span<const float> x) const;
  std::vector<float> encode(std::span<const float> x) const;         // [f]
  std::vector<float> decode(std::span<const float> features) const;  // [n]

  bool operator==(const Autoencoder&) const = default;
};
using AutoencoderPointer = std::shared_ptr<const Autoencoder>;

// A safetensors file with W_enc [n, f], b_enc, W_dec [f, n], b_dec, as SAELens writes them. Errors:
// those of load_tensor(); kInvalidArgument.
Result<Autoencoder> load_autoencoder(const std::filesystem::path& path, bool centred = false);

// What happens to one feature.
struct FeatureEdit {
  enum class Kind : uint8_t { kSet, kAdd, kScale };
  uint32_t feature = 0;
  Kind kind = Kind::kSet;
  double number = 0;

  bool operator==(const FeatureEdit&) const = default;
};

// x with some features changed: by the decoder's rows times the changes, so that what the
// autoencoder does not see of x (its error) stays; or, without the error, the reconstruction alone.
void edit_features(const Autoencoder& autoencoder, std::span<const FeatureEdit> edits,
                   bool keep_error, std::span<float> x);

}  // namespace phidias
