// How a request's edits change gradients.
#pragma once

#include <vector>

#include "gradient/collector.h"
#include "trace/edit_program.h"

namespace phidias {

// Of linear edits: what is set has no gradient before it, what is added passes it on, what is
// scaled or projected does so by the transposed map.
class EditDerivatives final : public EditDerivative {
 public:
  // Errors: those of EditProgram::compile(); kUnsupported for an edit that is not linear in the
  // value, or depends on it.
  static Result<EditDerivatives> compile(const Edits& edits, const RequestShape& request);

  SiteMask sites(size_t layer) const override { return masks_[layer]; }
  void visit(Site site, size_t layer, const SiteRows& gradient) override;
  void visit_pattern(Site site, size_t layer, size_t head, const SiteRows& gradient) override;

 private:
  template <class Apply>
  void each(Site site, size_t layer, Apply apply) const;

  std::vector<EditProgram> programs_;  // in the order in which they apply
  std::vector<SiteMask> masks_;        // per layer
};

}  // namespace phidias
