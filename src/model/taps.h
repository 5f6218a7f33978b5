// Where the forward pass can be looked into. The blocks are templates on a Taps type and compiled
// twice: with NoTaps nothing is left of a tap, not even a test; with StepTaps the runs that carry a
// RunTaps see their own rows at each site they ask for, and may write them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/batch.h"

namespace phidias {

// In the order in which they are passed. Letters as in step_state.h; a row is one position.
enum class Site : uint8_t {
  kTokenEmbeddings,         // [D], once, as layer 0
  kLayerInput,              // [D]: the residual stream, here and at kLayerMid and kLayerOutput
  kAttentionNormOutput,     // [D]
  kQkvOutput,               // [(H + 2K) d]: before rotation, in the checkpoint's order of rows
  kPreRotary,               // the same as all queries, all keys, all values, one site later
  kAttentionQueries,        // [H d]: rotated
  kAttentionKeys,           // [K d]: rotated, before they are rounded to the cache's type
  kAttentionValues,         // [K d]
  kAttentionScores,         // not by rows: visit_pattern()
  kAttentionProbabilities,  // likewise
  kAttentionHeadOutputs,    // [H d]
  kAttentionPremix,         // [H d]: the same memory, one site later
  kAttentionOutput,         // [D]: what the attention adds to the stream
  kLayerMid,
  kMlpNormOutput,  // [D]
  kMlpInput,       // [D]: the same memory, one site later
  kRouterLogits,   // [E], where there are experts; the choice follows what is written
  kRouterExperts,  // [2]: whole numbers, first pick and second; not to be written
  kRouterWeights,  // [2]
  kGateUpOutput,   // [2 F]; this and the next two where there are no experts
  kMlpActivation,  // [F]
  kMlpNeurons,     // [F]
  kMlpOutput,      // [D]
  kLayerOutput,
  kFinalNormOutput,  // [D], of rows whose logits are computed, one row at a time
  kLmHeadOutput,     // [V], likewise
  kLogits,           // [V], likewise
};
inline constexpr size_t kSiteCount = 27;

// A set of sites.
using SiteMask = uint32_t;
constexpr SiteMask mask_of(Site site) { return SiteMask{1} << static_cast<unsigned>(site); }
inline constexpr SiteMask kModelSites = mask_of(Site::kTokenEmbeddings) |
                                        mask_of(Site::kFinalNormOutput) |
                                        mask_of(Site::kLmHeadOutput) | mask_of(Site::kLogits);

// Consecutive positions of one sequence at one site, where they lie.
struct SiteRows {
  float* data = nullptr;  // row r at data + r * stride
  size_t rows = 0;
  size_t stride = 0;
  size_t width = 0;
  uint32_t position = 0;  // of the first row
};

// Scores or probabilities of consecutive query rows, all heads. A long run comes in several pieces.
struct SitePattern {
  float* data = nullptr;  // row r, head h, key k at data + (r * heads + h) * keys + k
  size_t rows = 0;
  size_t heads = 0;
  size_t keys = 0;        // positions [0, keys): all up to the end of the run
  uint32_t position = 0;  // of the first row
  // The scores, also at kAttentionProbabilities: a hidden entry is kHiddenScore (kernels/
  // attention_explicit.h). Laid out as `data`, and at kAttentionScores the same memory.
  const float* scores = nullptr;
};

// What a sequence wants of a layer's attention beyond its sites.
struct AttentionTap {
  bool edits = false;       // its scores or probabilities change: they are computed one by one
  bool lifts = false;       // hidden entries may be un-hidden
  bool call_edits = false;  // keys or values are changed in a copy that the cache does not keep
};

// What one sequence wants of the pass. Called by the thread that runs the step, between the
// parallel parts, but for what is const. What visit() writes is what the pass goes on with.
class RunTaps {
 public:
  virtual ~RunTaps() = default;
  // At the start of each pass over rows of the sequence.
  virtual void begin(const BatchRun&) {}
  // Whether logits are wanted for a row, beyond those that the step asks for.
  virtual bool wants_output(uint32_t) const { return false; }
  // Asked where `sites` has the scores or the probabilities.
  virtual AttentionTap attention(size_t) const { return {}; }
  virtual void visit_pattern(Site, size_t, const SitePattern&) {}
  // With call_edits: changes one head's keys or values (`site`) of all positions from 0 on, a copy;
  // and whether the query at a position sees the copy.
  virtual void edit_gathered(Site, size_t, size_t, const SiteRows&) const {}
  virtual bool sees_call_edits(size_t, uint32_t) const { return false; }
  // Sites of a layer that visit() is called at; those of kModelSites do not depend on the layer.
  virtual SiteMask sites(size_t layer) const = 0;
  virtual void visit(Site site, size_t layer, const SiteRows& rows) = 0;
  // Whether nothing is wanted of the sequence any more, neither of this pass nor of later ones.
  virtual bool over() const { return false; }
};

inline constexpr SiteMask kPatternSites =
    mask_of(Site::kAttentionScores) | mask_of(Site::kAttentionProbabilities);

struct NoTaps {
  static constexpr bool kActive = false;
  void enter(size_t) {}
  bool wants(Site) const { return false; }
  void at(Site, float*, size_t, size_t) {}
};

class StepTaps {
 public:
  static constexpr bool kActive = true;
  explicit StepTaps(const Batch& batch) : batch_(&batch), masks_(batch.runs.size()) {}

  void enter(size_t layer) {
    layer_ = layer;
    any_ = 0;
    for (size_t i = 0; i < masks_.size(); ++i) {
      const RunTaps* taps = batch_->runs[i].taps;
      masks_[i] = taps == nullptr ? 0 : taps->sites(layer);
      any_ |= masks_[i];
    }
  }
  // Whether no run wants anything any more.
  bool over() const {
    return std::all_of(batch_->runs.begin(), batch_->runs.end(),
                       [](const BatchRun& run) { return run.taps != nullptr && run.taps->over(); });
  }
  bool wants(Site site) const { return (any_ & mask_of(site)) != 0; }
  bool wants_pattern(size_t run) const { return (masks_[run] & kPatternSites) != 0; }
  // `data` holds all rows of the batch.
  void at(Site site, float* data, size_t stride, size_t width) {
    if (!wants(site)) return;
    for (size_t i = 0; i < masks_.size(); ++i) {
      const BatchRun& run = batch_->runs[i];
      if ((masks_[i] & mask_of(site)) != 0) {
        run.taps->visit(site, layer_, {data, run.tokens.size(), stride, width, run.position});
      }
      data += run.tokens.size() * stride;
    }
  }

 private:
  const Batch* batch_;
  std::vector<SiteMask> masks_;  // of each run, in the layer entered last
  SiteMask any_ = 0;
  size_t layer_ = 0;
};

}  // namespace phidias
