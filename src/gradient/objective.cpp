#include "gradient/objective.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace phidias {
namespace {

using Kind = ObjectiveTerm::Kind;

// log of the sum of exponentials, in double.
double log_normalizer(std::span<const float> logits) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

bool is_output_site(Site site) {
  return site == Site::kFinalNormOutput || site == Site::kLmHeadOutput || site == Site::kLogits;
}

bool reads_outputs(const ObjectiveTerm& term) {
  return term.kind != Kind::kDot || is_output_site(term.site);
}

bool at_site(const ObjectiveTerm& term, Site site, size_t layer) {
  if (term.kind != Kind::kDot || term.site != site) return false;
  return (kModelSites & mask_of(site)) != 0 || term.layer == layer;
}

Error bad_term(size_t index, const std::string& what) {
  return {Code::kInvalidArgument, what, {{}, {}, "term " + std::to_string(index)}};
}

}  // namespace

Objective::Objective(std::vector<ObjectiveTerm> terms) : terms_(std::move(terms)) {
  for (const ObjectiveTerm& term : terms_) {
    if (reads_outputs(term)) outputs_.push_back(term.position);
  }
  std::sort(outputs_.begin(), outputs_.end());
  outputs_.erase(std::unique(outputs_.begin(), outputs_.end()), outputs_.end());
}

Status Objective::check(const ModelSpec& spec, size_t positions) const {
  if (terms_.empty()) {
    return Error{
        Code::kInvalidArgument, "the metric has no term; there is nothing to differentiate", {}};
  }
  for (size_t i = 0; i < terms_.size(); ++i) {
    const ObjectiveTerm& term = terms_[i];
    if (term.position >= positions) {
      return bad_term(i, "position " + std::to_string(term.position) +
                             " is beyond the last of the run's " + std::to_string(positions));
    }
    if (term.kind == Kind::kDot) {
      const size_t width = site_width(spec, term.site);
      if (width == 0) return bad_term(i, "this value has no rows to take a dot product of");
      if ((kModelSites & mask_of(term.site)) == 0 && term.layer >= spec.layers)
        return bad_term(i, "there is no layer " + std::to_string(term.layer));
      if (term.offset > width || term.vector.size() > width - term.offset) {
        return bad_term(i, "the vector has " + std::to_string(term.vector.size()) +
                               " entries; from " + std::to_string(term.offset) +
                               " on a row of this value has " +
                               std::to_string(width - std::min(term.offset, width)));
      }
    } else if (term.kind == Kind::kKl) {
      if (term.vector.size() != spec.vocab) {
        return bad_term(i, "the reference distribution has " + std::to_string(term.vector.size()) +
                               " probabilities; the vocabulary has " + std::to_string(spec.vocab));
      }
    } else if (term.token < 0 || static_cast<uint32_t>(term.token) >= spec.vocab) {
      return bad_term(i, "token id " + std::to_string(term.token) +
                             " is outside the vocabulary of " + std::to_string(spec.vocab));
    }
  }
  return {};
}

SiteMask Objective::sites(size_t layer) const {
  SiteMask mask = 0;
  for (const ObjectiveTerm& term : terms_) {
    if (at_site(term, term.site, layer)) mask |= mask_of(term.site);
  }
  return mask;
}

void Objective::add_logits_gradient(uint32_t position, std::span<const float> logits,
                                    std::span<float> gradient) const {
  // What is spread over the whole distribution: minus the sum of the terms' masses times softmax.
  double mass = 0;
  for (const ObjectiveTerm& term : terms_) {
    if (term.position != position) continue;
    if (term.kind == Kind::kLogit || term.kind == Kind::kLogProb) {
      float& entry = gradient[static_cast<size_t>(term.token)];
      entry = static_cast<float>(static_cast<double>(entry) + term.weight);
      if (term.kind == Kind::kLogProb) mass += term.weight;
    } else if (term.kind == Kind::kKl) {
      // KL = sum r log r - sum r log p, so its gradient is (sum r) p - r.
      for (size_t i = 0; i < gradient.size(); ++i) {
        const auto probability = static_cast<double>(term.vector[i]);
        gradient[i] =
            static_cast<float>(static_cast<double>(gradient[i]) - term.weight * probability);
        mass -= term.weight * probability;
      }
    }
  }
  if (mass == 0) return;
  const double normalizer = log_normalizer(logits);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double probability = std::exp(static_cast<double>(logits[i]) - normalizer);
    gradient[i] = static_cast<float>(static_cast<double>(gradient[i]) - mass * probability);
  }
}

void Objective::add_site_gradient(Site site, size_t layer, const SiteRows& gradient) const {
  for (const ObjectiveTerm& term : terms_) {
    if (!at_site(term, site, layer)) continue;
    if (term.position < gradient.position || term.position >= gradient.position + gradient.rows)
      continue;
    float* row =
        gradient.data + (term.position - gradient.position) * gradient.stride + term.offset;
    for (size_t i = 0; i < term.vector.size(); ++i) {
      row[i] = static_cast<float>(static_cast<double>(row[i]) +
                                  term.weight * static_cast<double>(term.vector[i]));
    }
  }
}

double Objective::logits_part(uint32_t position, std::span<const float> logits) const {
  double part = 0;
  for (const ObjectiveTerm& term : terms_) {
    if (term.position != position || term.kind == Kind::kDot) continue;
    if (term.kind == Kind::kLogit) {
      part += term.weight * static_cast<double>(logits[static_cast<size_t>(term.token)]);
      continue;
    }
    const double normalizer = log_normalizer(logits);
    if (term.kind == Kind::kLogProb) {
      part +=
          term.weight * (static_cast<double>(logits[static_cast<size_t>(term.token)]) - normalizer);
      continue;
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      const auto probability = static_cast<double>(term.vector[i]);
      if (probability > 0) {
        part += term.weight * probability *
                (std::log(probability) - static_cast<double>(logits[i]) + normalizer);
      }
    }
  }
  return part;
}

double Objective::site_part(Site site, size_t layer, const SiteRows& values) const {
  double part = 0;
  for (const ObjectiveTerm& term : terms_) {
    if (!at_site(term, site, layer)) continue;
    if (term.position < values.position || term.position >= values.position + values.rows) continue;
    const float* row =
        values.data + (term.position - values.position) * values.stride + term.offset;
    for (size_t i = 0; i < term.vector.size(); ++i) {
      part += term.weight * static_cast<double>(row[i]) * static_cast<double>(term.vector[i]);
    }
  }
  return part;
}

Objective logit_difference(int32_t a, int32_t b, uint32_t position) {
  ObjectiveTerm first;
  first.position = position;
  first.token = a;
  ObjectiveTerm second = first;
  second.token = b;
  second.weight = -1;
  return Objective({first, second});
}

Objective weighted_log_probs(std::span<const int32_t> tokens, std::span<const float> weights) {
  std::vector<ObjectiveTerm> terms;
  for (size_t i = 0; i + 1 < tokens.size() && i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    ObjectiveTerm& term = terms.emplace_back();
    term.kind = Kind::kLogProb;
    term.weight = static_cast<double>(weights[i]);
    term.position = static_cast<uint32_t>(i);
    term.token = tokens[i + 1];
  }
  return Objective(std::move(terms));
}

size_t site_width(const ModelSpec& spec, Site site) {
  switch (site) {
    case Site::kQkvOutput:
    case Site::kPreRotary:
      return spec.attention.qkv_width();
    case Site::kAttentionQueries:
    case Site::kAttentionHeadOutputs:
    case Site::kAttentionPremix:
      return spec.attention.query_width();
    case Site::kAttentionKeys:
    case Site::kAttentionValues:
      return spec.attention.kv_width();
    case Site::kAttentionScores:
    case Site::kAttentionProbabilities:
    case Site::kRouterExperts:
      return 0;
    case Site::kRouterLogits:
      return spec.experts ? spec.experts->count : 0;
    case Site::kRouterWeights:
      return spec.experts ? ExpertsSpec::kPerRow : 0;
    case Site::kGateUpOutput:
      return 2UL * spec.ffn_width;
    case Site::kMlpActivation:
    case Site::kMlpNeurons:
      return spec.ffn_width;
    case Site::kLmHeadOutput:
    case Site::kLogits:
      return spec.vocab;
    default:
      return spec.width;
  }
}

}  // namespace phidias
