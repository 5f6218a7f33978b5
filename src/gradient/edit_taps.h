// What stands between a pass and the edits of its sequence: they see and write first, and whoever
// derives from this sees what they have left.
#pragma once

#include "model/taps.h"

namespace phidias {

class EditTaps : public RunTaps {
 public:
  // `edits` may be null.
  explicit EditTaps(RunTaps* edits) : edits_(edits) {}

  void begin(const BatchRun& run) override {
    if (edits_ != nullptr) edits_->begin(run);
  }
  bool wants_output(uint32_t position) const override {
    return edits_ != nullptr && edits_->wants_output(position);
  }
  AttentionTap attention(size_t layer) const override {
    return edits_ == nullptr ? AttentionTap() : edits_->attention(layer);
  }
  void visit_pattern(Site site, size_t layer, const SitePattern& pattern) override {
    if (asks(layer, site)) edits_->visit_pattern(site, layer, pattern);
  }
  void edit_gathered(Site site, size_t layer, size_t head, const SiteRows& rows) const override {
    if (edits_ != nullptr) edits_->edit_gathered(site, layer, head, rows);
  }
  bool sees_call_edits(size_t layer, uint32_t position) const override {
    return edits_ != nullptr && edits_->sees_call_edits(layer, position);
  }
  SiteMask sites(size_t layer) const override {
    return edits_ == nullptr ? 0 : edits_->sites(layer);
  }
  void visit(Site site, size_t layer, const SiteRows& rows) override {
    if (asks(layer, site)) edits_->visit(site, layer, rows);
  }

 private:
  bool asks(size_t layer, Site site) const {
    return edits_ != nullptr && (edits_->sites(layer) & mask_of(site)) != 0;
  }

  RunTaps* edits_;
};

}  // namespace phidias
