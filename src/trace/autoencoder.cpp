#include "phidias/autoencoder.h"

#include <algorithm>

#include "base/try.h"

namespace phidias {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double edited(double feature, const FeatureEdit& edit) {
  switch (edit.kind) {
    case FeatureEdit::Kind::kSet:
      return edit.number;
    case FeatureEdit::Kind::kAdd:
      return feature + edit.number;
    case FeatureEdit::Kind::kScale:
      return feature * edit.number;
  }
  return feature;
}

}  // namespace

Status Autoencoder::check() const {
  const auto is = [](const Tensor& tensor, const std::vector<uint64_t>& shape) {
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    return tensor.type == TensorType::kF32 && tensor.shape == shape &&
           tensor.floats.size() == count && count > 0;
  };
  const uint64_t f = features();
  const uint64_t n = width();
  if (is(encoder, {f, n}) && is(encoder_bias, {f}) && is(decoder, {f, n}) && is(decoder_bias, {n}))
    return {};
  return Error{
      Code::kInvalidArgument,
      "the autoencoder's tensors do not fit together: they must be [f, n], [f], [f, n] and "
      "[n]",
      {{}, {}, "sae"}};
}

float Autoencoder::feature(size_t index, std::span<const float> x) const {
  const auto row = std::span(encoder.floats).subspan(index * width(), width());
  double sum = dot(row, x) + static_cast<double>(encoder_bias.floats[index]);
  if (centred) sum -= dot(row, decoder_bias.floats);
  return static_cast<float>(std::max(sum, 0.0));
}

std::vector<float> Autoencoder::encode(std::span<const float> x) const {
  std::vector<float> all(features());
  for (size_t j = 0; j < all.size(); ++j) all[j] = feature(j, x);
  return all;
}

std::vector<float> Autoencoder::decode(std::span<const float> all) const {
  std::vector<double> sum(decoder_bias.floats.begin(), decoder_bias.floats.end());
  for (size_t j = 0; j < all.size(); ++j) {
    if (all[j] == 0) continue;
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += static_cast<double>(all[j]) * static_cast<double>(decoder.floats[j * width() + i]);
  }
  return {sum.begin(), sum.end()};
}

Result<Autoencoder> load_autoencoder(const std::filesystem::path& path, bool centred) {
  PHIDIAS_TRY(const Tensor columns, load_tensor(path, "W_enc"));  // [n, f]
  Autoencoder autoencoder;
  PHIDIAS_TRY(autoencoder.encoder_bias, load_tensor(path, "b_enc"));
  PHIDIAS_TRY(autoencoder.decoder, load_tensor(path, "W_dec"));
  PHIDIAS_TRY(autoencoder.decoder_bias, load_tensor(path, "b_dec"));
  autoencoder.centred = centred;
  if (columns.shape.size() != 2) {
    return Error{Code::kInvalidArgument, "W_enc is not [n, f]", {path.string(), {}, "W_enc"}};
  }
  const size_t n = columns.shape[0];
  const size_t f = columns.shape[1];
  autoencoder.encoder = {TensorType::kF32, {f, n}, std::vector<float>(f * n), {}};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < f; ++j)
      autoencoder.encoder.floats[j * n + i] = columns.floats[i * f + j];
  }
  const Status fits = autoencoder.check();
  if (!fits.ok()) return Error{fits.error().code, fits.error().message, {path.string(), {}, {}}};
  return autoencoder;
}

void edit_features(const Autoencoder& autoencoder, std::span<const FeatureEdit> edits,
                   bool keep_error, std::span<float> x) {
  if (!keep_error) {
    std::vector<float> features = autoencoder.encode(x);
    for (const FeatureEdit& edit : edits) {
      float& feature = features[edit.feature];
      feature = static_cast<float>(edited(static_cast<double>(feature), edit));
    }
    const std::vector<float> decoded = autoencoder.decode(features);
    std::copy(decoded.begin(), decoded.end(), x.begin());
    return;
  }
  std::vector<double> change(x.size());
  for (const FeatureEdit& edit : edits) {
    const auto feature = static_cast<double>(autoencoder.feature(edit.feature, x));
    const double difference = edited(feature, edit) - feature;
    const float* row = autoencoder.decoder.floats.data() + edit.feature * x.size();
    for (size_t i = 0; i < x.size(); ++i) change[i] += difference * static_cast<double>(row[i]);
  }
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<double>(x[i]) + change[i]);
}

}  // namespace phidias
