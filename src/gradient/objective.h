// What is differentiated: a weighted sum of terms, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"
#include "model/taps.h"
#include "phidias/status.h"

namespace phidias {

struct ObjectiveTerm {
  enum class Kind : uint8_t {
    kLogit,    // the logit of `token` at `position`
    kLogProb,  // its log-probability
    kKl,       // KL(reference || softmax of the logits) at `position`
    kDot,      // the dot product of a value at `position` with `vector`
  };
  Kind kind = Kind::kLogit;
  double weight = 1;
  uint32_t position = 0;
  int32_t token = 0;
  // kKl: the reference's probabilities [V]. kDot: the direction, which begins at entry `offset` of
  // the site's row.
  std::vector<float> vector;
  Site site = Site::kLayerOutput;
  size_t layer = 0;
  size_t offset = 0;
};

class Objective {
 public:
  Objective() = default;
  explicit Objective(std::vector<ObjectiveTerm> terms);

  // Errors: kInvalidArgument (a position beyond the run, an id outside the vocabulary, a vector of
  // the wrong size, a site that has no rows, no term at all).
  Status check(const ModelSpec& spec, size_t positions) const;

  // Positions whose logits, or final norm's output, are read; ascending.
  std::span<const uint32_t> outputs() const { return outputs_; }
  // Sites of a layer that are read; kModelSites as RunTaps has them.
  SiteMask sites(size_t layer) const;
  // Adds the gradient at the logits of a position.
  void add_logits_gradient(uint32_t position, std::span<const float> logits,
                           std::span<float> gradient) const;
  // Adds the gradient at a value that is read, to the rows given.
  void add_site_gradient(Site site, size_t layer, const SiteRows& gradient) const;

  // The parts of the objective that logits of a position, or rows of a value, are.
  double logits_part(uint32_t position, std::span<const float> logits) const;
  double site_part(Site site, size_t layer, const SiteRows& values) const;

  const std::vector<ObjectiveTerm>& terms() const { return terms_; }

 private:
  std::vector<ObjectiveTerm> terms_;
  std::vector<uint32_t> outputs_;
};

// logit(a) - logit(b) at a position.
Objective logit_difference(int32_t a, int32_t b, uint32_t position);
// The sum of weights[i] times the log-probability of tokens[i + 1] at position i.
Objective weighted_log_probs(std::span<const int32_t> tokens, std::span<const float> weights);

// Floats of a row at a site; 0 for patterns.
size_t site_width(const ModelSpec& spec, Site site);

}  // namespace phidias
