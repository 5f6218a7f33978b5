#include "double_network.h"

#include <cmath>
#include <limits>

namespace phidias::test {
namespace {

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

DoubleNetwork::DoubleNetwork(const RandomModel& model)
    : spec_(&model.spec),
      final_norm_(widen(model.weights.final_norm)),
      embedding_(decode(model.weights.embedding)),
      head_(decode(model.weights.head)) {
  for (const LayerWeights& layer : model.weights.layers) {
    layers_.push_back({widen(layer.attention_norm), widen(layer.ffn_norm), decode(layer.qkv),
                       decode(layer.attention_output), decode(layer.gate_up), decode(layer.down)});
  }
}

DoubleNetwork::Weights DoubleNetwork::decode(const Matrix& matrix) {
  Weights weights = {matrix.rows, matrix.cols, {}};
  std::vector<float> row(matrix.cols);
  for (size_t r = 0; r < matrix.rows; ++r) {
    decode_row(matrix, r, row.data());
    weights.values.insert(weights.values.end(), row.begin(), row.end());
  }
  return weights;
}

std::vector<double> DoubleNetwork::multiply(const Weights& weights, const std::vector<double>& x) {
  std::vector<double> y(x.size() / weights.cols * weights.rows);
  for (size_t i = 0; i < y.size(); ++i) {
    const double* row = x.data() + i / weights.rows * weights.cols;
    const double* weight = weights.values.data() + i % weights.rows * weights.cols;
    for (size_t c = 0; c < weights.cols; ++c) y[i] += weight[c] * row[c];
  }
  return y;
}

std::vector<double> DoubleNetwork::normalize(const std::vector<double>& weight,
                                             const std::vector<double>& x) const {
  std::vector<double> y(x.size());
  for (size_t begin = 0; begin < x.size(); begin += weight.size()) {
    double squares = 0;
    for (size_t i = 0; i < weight.size(); ++i) squares += x[begin + i] * x[begin + i];
    const double root =
        std::sqrt(squares / static_cast<double>(weight.size()) + double{spec_->norm_epsilon});
    for (size_t i = 0; i < weight.size(); ++i) y[begin + i] = weight[i] * x[begin + i] / root;
  }
  return y;
}

void DoubleNetwork::rotate(std::vector<double>& qkv, size_t positions,
                           RotaryFactors factors) const {
  const LongRope& rope = *spec_->rope.long_rope;
  const bool is_long = factors == RotaryFactors::kLong;
  const size_t half = spec_->rope.rotary_dims / 2;
  const size_t dim = spec_->attention.head_dim;
  const double magnitude = is_long ? rope.long_magnitude : rope.short_magnitude;
  for (size_t p = 0; p < positions; ++p) {
    for (size_t h = 0; h < spec_->attention.heads + spec_->attention.kv_heads; ++h) {
      double* head = qkv.data() + p * spec_->attention.qkv_width() + h * dim;
      for (size_t i = 0; i < half; ++i) {
        const double exponent =
            2.0 * static_cast<double>(i) / static_cast<double>(spec_->rope.rotary_dims);
        const double divisor = (is_long ? rope.long_factors : rope.short_factors)[i];
        const double angle =
            static_cast<double>(p) / (divisor * std::pow(spec_->rope.theta, exponent));
        const double a = head[i];
        const double b = head[i + half];
        head[i] = magnitude * (a * std::cos(angle) - b * std::sin(angle));
        head[i + half] = magnitude * (b * std::cos(angle) + a * std::sin(angle));
      }
    }
  }
}

std::vector<double> DoubleNetwork::attend(size_t layer, const std::vector<double>& qkv,
                                          size_t positions, const Visit& visit) const {
  const AttentionSpec& attention = spec_->attention;
  const size_t dim = attention.head_dim;
  const size_t stride = attention.qkv_width();
  const auto part = [&](size_t begin, size_t width) {
    std::vector<double> values;
    for (size_t p = 0; p < positions; ++p) {
      const double* row = qkv.data() + p * stride + begin;
      values.insert(values.end(), row, row + width);
    }
    return values;
  };
  std::vector<double> queries = part(0, attention.query_width());
  std::vector<double> keys = part(attention.query_width(), attention.kv_width());
  std::vector<double> values =
      part(attention.query_width() + attention.kv_width(), attention.kv_width());
  visit(Site::kAttentionQueries, layer, queries);
  visit(Site::kAttentionKeys, layer, keys);
  visit(Site::kAttentionValues, layer, values);

  const auto hidden = [&](size_t i, size_t j) {
    return j > i || (spec_->mask.window != 0 && i - j >= spec_->mask.window);
  };
  std::vector<double> pattern(attention.heads * positions * positions);
  const auto entry = [&](size_t h, size_t i, size_t j) -> double& {
    return pattern[(h * positions + i) * positions + j];
  };
  for (size_t h = 0; h < attention.heads; ++h) {
    for (size_t i = 0; i < positions; ++i) {
      for (size_t j = 0; j < positions; ++j) {
        double score = 0;
        for (size_t d = 0; d < dim; ++d) {
          score += queries[i * attention.query_width() + h * dim + d] *
                   keys[j * attention.kv_width() + h / attention.group() * dim + d];
        }
        entry(h, i, j) = hidden(i, j) ? double{std::numeric_limits<float>::lowest()}
                                      : score / std::sqrt(static_cast<double>(dim));
      }
    }
  }
  visit(Site::kAttentionScores, layer, pattern);
  for (size_t h = 0; h < attention.heads; ++h) {
    for (size_t i = 0; i < positions; ++i) {
      double largest = -std::numeric_limits<double>::infinity();
      for (size_t j = 0; j < positions; ++j) largest = std::max(largest, entry(h, i, j));
      double sum = 0;
      for (size_t j = 0; j < positions; ++j)
        sum += entry(h, i, j) = std::exp(entry(h, i, j) - largest);
      for (size_t j = 0; j < positions; ++j) entry(h, i, j) /= sum;
    }
  }
  visit(Site::kAttentionProbabilities, layer, pattern);
  std::vector<double> heads(positions * attention.query_width());
  for (size_t i = 0; i < positions; ++i) {
    for (size_t c = 0; c < attention.query_width(); ++c) {
      const size_t h = c / dim;
      const size_t column = h / attention.group() * dim + c % dim;
      for (size_t j = 0; j < positions; ++j) {
        heads[i * attention.query_width() + c] +=
            entry(h, i, j) * values[j * attention.kv_width() + column];
      }
    }
  }
  return heads;
}

std::vector<double> DoubleNetwork::logits(const std::vector<int32_t>& tokens, RotaryFactors factors,
                                          const Visit& visit) const {
  const size_t positions = tokens.size();
  std::vector<double> stream;
  for (const int32_t token : tokens) {
    const double* row = embedding_.values.data() + static_cast<size_t>(token) * spec_->width;
    stream.insert(stream.end(), row, row + spec_->width);
  }
  const auto add = [&](const std::vector<double>& contribution) {
    for (size_t i = 0; i < stream.size(); ++i) stream[i] += contribution[i];
  };
  visit(Site::kTokenEmbeddings, 0, stream);
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    visit(Site::kLayerInput, l, stream);
    std::vector<double> x = normalize(layer.attention_norm, stream);
    visit(Site::kAttentionNormOutput, l, x);
    x = multiply(layer.qkv, x);
    visit(Site::kQkvOutput, l, x);
    rotate(x, positions, factors);
    x = attend(l, x, positions, visit);
    visit(Site::kAttentionHeadOutputs, l, x);
    visit(Site::kAttentionPremix, l, x);
    x = multiply(layer.attention_output, x);
    visit(Site::kAttentionOutput, l, x);
    add(x);
    visit(Site::kLayerMid, l, stream);
    x = normalize(layer.ffn_norm, stream);
    visit(Site::kMlpNormOutput, l, x);
    visit(Site::kMlpInput, l, x);
    x = multiply(layer.gate_up, x);
    visit(Site::kGateUpOutput, l, x);
    const size_t width = spec_->ffn_width;
    std::vector<double> activation(positions * width);
    for (size_t i = 0; i < activation.size(); ++i) {
      const double gate = x[i / width * 2 * width + i % width];
      activation[i] = gate / (1 + std::exp(-gate));
    }
    visit(Site::kMlpActivation, l, activation);
    for (size_t i = 0; i < activation.size(); ++i)
      activation[i] *= x[i / width * 2 * width + width + i % width];
    visit(Site::kMlpNeurons, l, activation);
    x = multiply(layer.down, activation);
    visit(Site::kMlpOutput, l, x);
    add(x);
    visit(Site::kLayerOutput, l, stream);
  }
  stream = normalize(final_norm_, stream);
  visit(Site::kFinalNormOutput, 0, stream);
  std::vector<double> logits = multiply(head_, stream);
  visit(Site::kLmHeadOutput, 0, logits);
  visit(Site::kLogits, 0, logits);
  return logits;
}

}  // namespace phidias::test
