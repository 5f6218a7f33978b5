// The value of an objective, taken from a forward pass as it goes by.
#pragma once

#include "gradient/edit_taps.h"
#include "gradient/objective.h"

namespace phidias {

class ObjectiveTaps final : public EditTaps {
 public:
  // Both must outlive this; `edits` may be null. Each row must be run once.
  ObjectiveTaps(const Objective& objective, RunTaps* edits)
      : EditTaps(edits), objective_(&objective) {}

  double value() const { return value_; }

  bool wants_output(uint32_t position) const override;
  SiteMask sites(size_t layer) const override;
  void visit(Site site, size_t layer, const SiteRows& rows) override;

 private:
  const Objective* objective_;
  double value_ = 0;
};

}  // namespace phidias
