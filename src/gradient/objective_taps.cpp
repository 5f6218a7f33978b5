#include "gradient/objective_taps.h"

#include <algorithm>

namespace phidias {

bool ObjectiveTaps::wants_output(uint32_t position) const {
  const auto outputs = objective_->outputs();
  return std::binary_search(outputs.begin(), outputs.end(), position) ||
         EditTaps::wants_output(position);
}

SiteMask ObjectiveTaps::sites(size_t layer) const {
  return mask_of(Site::kLogits) | objective_->sites(layer) | EditTaps::sites(layer);
}

void ObjectiveTaps::visit(Site site, size_t layer, const SiteRows& rows) {
  EditTaps::visit(site, layer, rows);
  value_ += objective_->site_part(site, layer, rows);
  if (site == Site::kLogits)
    value_ += objective_->logits_part(rows.position, {rows.data, rows.width});
}

}  // namespace phidias
