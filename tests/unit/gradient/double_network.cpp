#include "double_network.h"

#include <algorithm>
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
      final_norm_{widen(model.weights.final_norm), widen(model.weights.final_norm_bias)},
      embedding_(decode(model.weights.embedding, {})),
      head_(decode(model.weights.head, model.weights.head_bias)) {
  for (const LayerWeights& layer : model.weights.layers) {
    layers_.push_back({{widen(layer.attention_norm), widen(layer.attention_norm_bias)},
                       {widen(layer.ffn_norm), widen(layer.ffn_norm_bias)},
                       decode(layer.qkv, layer.qkv_bias),
                       decode(layer.attention_output, layer.attention_output_bias),
                       decode(layer.gate_up, layer.gate_up_bias),
                       decode(layer.down, layer.down_bias),
                       decode(layer.router, {}),
                       {}});
    for (const ExpertWeights& expert : layer.experts) {
      layers_.back().experts.emplace_back(decode(expert.gate_up, {}), decode(expert.down, {}));
    }
  }
}

DoubleNetwork::Weights DoubleNetwork::decode(const Matrix& matrix, const std::vector<float>& bias) {
  Weights weights = {matrix.rows, matrix.cols, {}, widen(bias)};
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
    if (!weights.bias.empty()) y[i] += weights.bias[i % weights.rows];
  }
  return y;
}

std::vector<double> DoubleNetwork::normalize(const NormWeights& norm,
                                             const std::vector<double>& x) const {
  const size_t n = norm.weight.size();
  std::vector<double> y(x.size());
  for (size_t begin = 0; begin < x.size(); begin += n) {
    double mean = 0;
    for (size_t i = 0; i < n; ++i) mean += x[begin + i] / static_cast<double>(n);
    if (spec_->norm == Norm::kRms) mean = 0;
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += (x[begin + i] - mean) * (x[begin + i] - mean);
    const double root = std::sqrt(squares / static_cast<double>(n) + double{spec_->norm_epsilon});
    for (size_t i = 0; i < n; ++i) {
      y[begin + i] = norm.weight[i] * (x[begin + i] - mean) / root;
      if (!norm.bias.empty()) y[begin + i] += norm.bias[i];
    }
  }
  return y;
}

std::vector<double> DoubleNetwork::activate(const std::vector<double>& gate_up) const {
  const size_t width = spec_->ffn_width;
  std::vector<double> activation(gate_up.size() / 2);
  for (size_t i = 0; i < activation.size(); ++i) {
    const double* row = gate_up.data() + i / width * 2 * width;
    if (spec_->gating == Gating::kSilu) {
      const double gate = row[i % width];
      activation[i] = gate / (1 + std::exp(-gate));
    } else {
      const double gate = std::min(row[i % width * 2], double{spec_->gating_limit});
      activation[i] = gate / (1 + std::exp(-1.702 * gate));
    }
  }
  return activation;
}

std::vector<double> DoubleNetwork::other_branch(const std::vector<double>& gate_up) const {
  const size_t width = spec_->ffn_width;
  const double limit = spec_->gating_limit;
  std::vector<double> other(gate_up.size() / 2);
  for (size_t i = 0; i < other.size(); ++i) {
    const double* row = gate_up.data() + i / width * 2 * width;
    other[i] = spec_->gating == Gating::kSilu
                   ? row[width + i % width]
                   : std::clamp(row[i % width * 2 + 1], -limit, limit) + 1;
  }
  return other;
}

std::vector<double> DoubleNetwork::mixture(size_t index, const std::vector<double>& x,
                                           const Visit& visit) const {
  const Layer& layer = layers_[index];
  const size_t rows = x.size() / spec_->width;
  const size_t count = layer.experts.size();
  std::vector<double> logits = multiply(layer.router, x);
  visit(Site::kRouterLogits, index, logits);
  std::vector<size_t> picks;
  std::vector<double> weights;
  for (size_t r = 0; r < rows; ++r) {
    std::vector<double> left(logits.begin() + static_cast<ptrdiff_t>(r * count),
                             logits.begin() + static_cast<ptrdiff_t>((r + 1) * count));
    for (int pick = 0; pick < 2; ++pick) {
      const auto best = std::max_element(left.begin(), left.end());
      const double most = *best;
      double sum = 0;
      for (const double logit : left) {
        if (std::isinf(logit)) continue;  // the first pick
        if ((most - logit) / std::max(std::abs(logit), most) <= double{spec_->experts->band})
          sum += std::exp(logit - most);
      }
      picks.push_back(static_cast<size_t>(best - left.begin()));
      weights.push_back(1 / sum);
      *best = -std::numeric_limits<double>::infinity();
    }
  }
  visit(Site::kRouterWeights, index, weights);
  std::vector<double> sum(x.size());
  for (size_t i = 0; i < picks.size(); ++i) {
    const size_t begin = i / 2 * spec_->width;
    const auto& [gate_up, down] = layer.experts[picks[i]];
    const std::vector<double> row(x.begin() + static_cast<ptrdiff_t>(begin),
                                  x.begin() + static_cast<ptrdiff_t>(begin + spec_->width));
    const std::vector<double> branches = multiply(gate_up, row);
    std::vector<double> neurons = activate(branches);
    const std::vector<double> other = other_branch(branches);
    for (size_t n = 0; n < neurons.size(); ++n) neurons[n] *= other[n];
    const std::vector<double> output = multiply(down, neurons);
    for (size_t c = 0; c < output.size(); ++c) sum[begin + c] += weights[i] * output[c];
  }
  return sum;
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

  const auto hidden = [&](size_t h, size_t i, size_t j) {
    if (j > i || (spec_->mask.window != 0 && i - j >= spec_->mask.window)) return true;
    if (!spec_->mask.blocks) return false;
    const BlockSparse& blocks = *spec_->mask.blocks;
    if ((layer + 1) % blocks.dense_every == 0) return false;
    const size_t query = i / blocks.block;
    const size_t key = j / blocks.block;
    return query - key >= blocks.local_blocks &&
           (key + h * blocks.head_step + 1) % blocks.stride != 0;
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
        const double scale = attention.scale != 0 ? double{attention.scale}
                                                  : 1 / std::sqrt(static_cast<double>(dim));
        entry(h, i, j) =
            hidden(h, i, j) ? double{std::numeric_limits<float>::lowest()} : score * scale;
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
  for (double& x : stream) x *= double{spec_->embedding_scale};
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
    if (spec_->experts) {
      x = mixture(l, x, visit);
    } else {
      x = multiply(layer.gate_up, x);
      visit(Site::kGateUpOutput, l, x);
      std::vector<double> activation = activate(x);
      visit(Site::kMlpActivation, l, activation);
      const std::vector<double> other = other_branch(x);
      for (size_t i = 0; i < activation.size(); ++i) activation[i] *= other[i];
      visit(Site::kMlpNeurons, l, activation);
      x = multiply(layer.down, activation);
    }
    visit(Site::kMlpOutput, l, x);
    add(x);
    visit(Site::kLayerOutput, l, stream);
  }
  stream = normalize(final_norm_, stream);
  visit(Site::kFinalNormOutput, 0, stream);
  std::vector<double> logits = multiply(head_, stream);
  visit(Site::kLmHeadOutput, 0, logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] /= double{spec_->logit_divisor};
    for (const int32_t id : spec_->masked_ids) {
      if (i % spec_->vocab == static_cast<size_t>(id)) logits[i] = -1e30;
    }
  }
  visit(Site::kLogits, 0, logits);
  return logits;
}

}  // namespace phidias::test
