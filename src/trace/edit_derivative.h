// How a request's edits change gradients.
#pragma once

#include <vector>

#include "gradient/collector.h"
#include "trace/edit_program.h"
#include "trace/sequence_trace.h"

namespace phidias {

// What is set has no gradient before it, what is added passes it on, what is scaled or projected
// does so by the transposed map. Clamps, kept norms, sums brought back to 1, features of an
// autoencoder and conditions go by the vectors that they met in the run; skipped layers hand the
// gradient on as they handed the stream.
class EditDerivatives final : public EditDerivative {
 public:
  // Errors: those of EditProgram::compile(); kUnsupported for a function, and for keys or values
  // that some queries alone see changed.
  static Result<EditDerivatives> compile(const Edits& edits, const RequestShape& request);

  // Bytes of what the run has to keep.
  uint64_t record_bytes() const;
  // Before the run. Throws std::bad_alloc.
  void follow(SequenceTrace& run) { run.record(programs_); }

  SiteMask sites(size_t layer) const override { return masks_[layer]; }
  void receive(Site site, size_t layer, const SiteRows& gradient) override;
  void visit(Site site, size_t layer, const SiteRows& gradient) override;
  void visit_pattern(Site site, size_t layer, size_t head, const SiteRows& gradient) override;

 private:
  struct Skip {
    SkipRange layers;
    PositionSet at;
    std::vector<float> gradient;  // of what leaves the last layer
  };

  template <class Apply>
  void each(Site site, size_t layer, Apply apply) const;

  std::vector<EditProgram> programs_;  // in the order in which they apply
  std::vector<Skip> skips_;            // likewise
  std::vector<SiteMask> masks_;        // per layer
};

}  // namespace phidias
