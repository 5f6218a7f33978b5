// The gradient of an objective at wanted values, collected; with gradients cut or scaled on the
// way.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "gradient/gradient.h"
#include "gradient/objective.h"

namespace phidias {

// One value of one layer; of kModelSites `layer` is 0.
struct GradientPlace {
  Site site = Site::kLayerOutput;
  size_t layer = 0;

  bool operator==(const GradientPlace&) const = default;
  bool operator<(const GradientPlace& other) const {
    return std::tie(site, layer) < std::tie(other.site, other.layer);
  }
};

// An edit of the backward pass: the gradient at a place is multiplied. With 0 at kMlpOutput or
// kAttentionOutput nothing flows through that block's contribution (AtP*'s GradDrop).
struct GradientScale {
  GradientPlace place;
  float factor = 0;
  std::vector<uint32_t> positions;  // ascending; empty: all. Queries for scores and probabilities
};

// How a run's edits change gradients: from that with respect to an edited value to that with
// respect to what it was before (set: 0; scale: times the factor; add: as it is). Calls as those of
// GradientTaps.
class EditDerivative {
 public:
  virtual ~EditDerivative() = default;
  // Sites of a layer that have edits; kModelSites as RunTaps has them.
  virtual SiteMask sites(size_t layer) const = 0;
  // Before visit(): adds what flows to the edited value from where the edit has handed it on.
  virtual void receive(Site, size_t, const SiteRows&) {}
  virtual void visit(Site site, size_t layer, const SiteRows& gradient) = 0;
  virtual void visit_pattern(Site site, size_t layer, size_t head, const SiteRows& gradient) = 0;
};

class GradientCollector : public GradientTaps {
 public:
  // A gradient as the sites have rows: [N, site_width]; of patterns [heads, N, N]. From the final
  // norm on, positions that are no outputs have 0. It is collected before it is scaled.
  struct Gradient {
    size_t rows = 0;
    size_t width = 0;
    std::vector<float> values;
  };

  // Wanted places may repeat. `edits` are those of the run and may be null. Throws std::bad_alloc.
  GradientCollector(const ModelSpec& spec, size_t positions, Objective objective,
                    const std::vector<GradientPlace>& wanted,
                    std::vector<GradientScale> scales = {}, EditDerivative* edits = nullptr);

  // Bytes of what is collected.
  static uint64_t bytes(const ModelSpec& spec, size_t positions, GradientPlace place);

  // Of a wanted place; after run_backward().
  const Gradient& operator[](GradientPlace place) const { return gradients_.at(place); }
  Gradient take(GradientPlace place) { return std::move(gradients_.at(place)); }
  const Objective& objective() const { return objective_; }
  // The objective's part that is made of logits, as the pass recomputed them.
  double logits_part() const { return logits_part_; }

  std::span<const uint32_t> outputs() const override { return objective_.outputs(); }
  void add_objective(uint32_t position, std::span<const float> logits,
                     std::span<float> gradient) override;
  SiteMask sites(size_t layer) const override;
  void visit(Site site, size_t layer, const SiteRows& gradient) override;
  void visit_pattern(Site site, size_t layer, size_t head, const SiteRows& gradient) override;

 private:
  void collect(GradientPlace place, size_t first_row, const SiteRows& gradient);
  void scale(GradientPlace place, const SiteRows& gradient) const;

  size_t positions_;
  Objective objective_;
  std::vector<GradientScale> scales_;
  EditDerivative* edits_;
  std::map<GradientPlace, Gradient> gradients_;
  std::vector<SiteMask> masks_;  // per layer, of wanted places and scales
  SiteMask model_mask_ = 0;
  double logits_part_ = 0;
};

}  // namespace phidias
