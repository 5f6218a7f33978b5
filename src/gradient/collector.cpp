#include "gradient/collector.h"

#include <algorithm>
#include <cstring>

namespace phidias {
namespace {

bool is_pattern(Site site) { return (kPatternSites & mask_of(site)) != 0; }

}  // namespace

GradientCollector::GradientCollector(const ModelSpec& spec, size_t positions, Objective objective,
                                     const std::vector<GradientPlace>& wanted,
                                     std::vector<GradientScale> scales, EditDerivative* edits)
    : positions_(positions),
      objective_(std::move(objective)),
      scales_(std::move(scales)),
      edits_(edits),
      masks_(spec.layers) {
  const auto mark = [&](GradientPlace place) {
    if ((kModelSites & mask_of(place.site)) != 0) {
      model_mask_ |= mask_of(place.site);
    } else {
      masks_[place.layer] |= mask_of(place.site);
    }
  };
  for (const GradientScale& scale : scales_) mark(scale.place);
  for (const GradientPlace place : wanted) {
    mark(place);
    Gradient& gradient = gradients_[place];
    gradient.rows = is_pattern(place.site) ? spec.attention.heads * positions : positions;
    gradient.width = is_pattern(place.site) ? positions : site_width(spec, place.site);
    gradient.values.assign(gradient.rows * gradient.width, 0.0F);
  }
}

uint64_t GradientCollector::bytes(const ModelSpec& spec, size_t positions, GradientPlace place) {
  const uint64_t row = is_pattern(place.site) ? uint64_t{spec.attention.heads} * positions
                                              : site_width(spec, place.site);
  return row * positions * sizeof(float);
}

void GradientCollector::add_objective(uint32_t position, std::span<const float> logits,
                                      std::span<float> gradient) {
  objective_.add_logits_gradient(position, logits, gradient);
  logits_part_ += objective_.logits_part(position, logits);
}

SiteMask GradientCollector::sites(size_t layer) const {
  const SiteMask edits = edits_ == nullptr ? 0 : edits_->sites(layer);
  return masks_[layer] | model_mask_ | objective_.sites(layer) | edits;
}

void GradientCollector::visit(Site site, size_t layer, const SiteRows& gradient) {
  const bool edited = edits_ != nullptr && (edits_->sites(layer) & mask_of(site)) != 0;
  if (edited) edits_->receive(site, layer, gradient);
  objective_.add_site_gradient(site, layer, gradient);
  collect({site, layer}, gradient.position, gradient);
  scale({site, layer}, gradient);
  if (edited) edits_->visit(site, layer, gradient);
}

void GradientCollector::visit_pattern(Site site, size_t layer, size_t head,
                                      const SiteRows& gradient) {
  collect({site, layer}, head * positions_ + gradient.position, gradient);
  scale({site, layer}, gradient);
  if (edits_ != nullptr && (edits_->sites(layer) & mask_of(site)) != 0)
    edits_->visit_pattern(site, layer, head, gradient);
}

void GradientCollector::collect(GradientPlace place, size_t first_row, const SiteRows& gradient) {
  const auto wanted = gradients_.find(place);
  if (wanted == gradients_.end()) return;
  for (size_t r = 0; r < gradient.rows; ++r) {
    std::memcpy(wanted->second.values.data() + (first_row + r) * gradient.width,
                gradient.data + r * gradient.stride, gradient.width * sizeof(float));
  }
}

void GradientCollector::scale(GradientPlace place, const SiteRows& gradient) const {
  for (const GradientScale& edit : scales_) {
    if (edit.place != place) continue;
    for (size_t r = 0; r < gradient.rows; ++r) {
      const auto position = static_cast<uint32_t>(gradient.position + r);
      if (!edit.positions.empty() &&
          !std::binary_search(edit.positions.begin(), edit.positions.end(), position)) {
        continue;
      }
      float* row = gradient.data + r * gradient.stride;
      for (size_t i = 0; i < gradient.width; ++i) row[i] *= edit.factor;
    }
  }
}

}  // namespace phidias
