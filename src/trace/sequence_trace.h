// What one request wants to see and change of its pass, compiled: the taps that its sequence
// carries.
#pragma once

#include <memory>
#include <vector>

#include "model/taps.h"
#include "phidias/trace.h"
#include "trace/collector.h"
#include "trace/edit_program.h"

namespace phidias {

struct TraceRequest {
  std::span<const Read> reads;
  const Edits* edits = nullptr;
  std::span<const TokenId> prompt;  // not empty
  size_t rows = 0;         // that will be computed: prompt and answer but for its last token
  size_t step_rows = 0;    // of one pass
  uint64_t max_bytes = 0;  // of what is kept
};

// Copying gives a request that goes on from here by itself: what a fork of its sequence carries.
class SequenceTrace final : public RunTaps {
 public:
  // Errors: as Trace::plan().
  static Result<SequenceTrace> compile(const TraceRequest& request,
                                       const CollectorContext& context);

  TracePlan plan() const;
  // Takes the memory of the reads; before the first step. Errors: kOutOfMemory.
  Status allocate();
  // Edits whose derivatives depend on what they meet keep it, for these. Throws std::bad_alloc.
  void record(std::span<EditProgram> derivatives);
  // The token that is run at a position in place of `token`.
  TokenId fed(size_t position, TokenId token);
  // The run goes on behind these tokens, whose positions were run without it.
  void follow(std::span<const TokenId> before) { tokens_.assign(before.begin(), before.end()); }
  // Positions below this one have, in a cache, what they have without the edits.
  size_t first_edit(Numerics numerics) const;
  // Positions below this one need not be run with this trace: a cache may hold them already.
  size_t first_position(Numerics numerics) const;
  // Layers from here on leave nothing to do, and no row has an output: they need not be run.
  size_t end_layer() const;
  // What was kept of the first `rows` positions, once the run is over.
  Traced take(size_t rows) &&;
  // Whether nothing is read, edited or hidden: the sequence needs no taps.
  bool idle() const { return idle_; }
  // Whether a callback has asked for the end of the run.
  bool cancelled() const { return cancelled_; }

  SiteMask sites(size_t layer) const override { return layers_[layer].sites; }
  void visit(Site site, size_t layer, const SiteRows& rows) override;
  void begin(const BatchRun& run) override;
  bool wants_output(uint32_t position) const override {
    return position < outputs_.size() && outputs_[position];
  }
  AttentionTap attention(size_t layer) const override { return layers_[layer].attention; }
  void visit_pattern(Site site, size_t layer, const SitePattern& pattern) override;
  void edit_gathered(Site site, size_t layer, size_t head, const SiteRows& rows) const override;
  bool sees_call_edits(size_t layer, uint32_t position) const override;
  bool over() const override { return cancelled_; }

 private:
  // What happens at one site of one layer, in order: reads before, edits, reads after.
  struct Work {
    std::vector<size_t> before;
    std::vector<size_t> edits;
    std::vector<size_t> after;
  };
  struct Layer {
    SiteMask sites = 0;
    AttentionTap attention;
    Work work[kSiteCount];
    std::vector<size_t> call_edits;
  };
  struct Skip {  // the stream that enters layer `from`, to be what leaves layer `to`
    size_t from;
    size_t to;
    PositionSet at;
    size_t number;
    std::vector<float> stream;  // of the rows of this pass
  };

  Status add_edits(const TraceRequest& request, const RequestShape& shape);
  Status add_reads(const TraceRequest& request, const RequestShape& shape,
                   const CollectorContext& context);
  Status add_skip(const Edit& edit, size_t number, const RequestShape& shape);
  void hide_masked(const RequestShape& shape, EditProgram& program);
  void hide_keys(const SitePattern& pattern) const;
  Work& work_at(ValueId id, size_t layer);
  template <typename Rows>
  void run(Work& work, const Rows& rows);

  size_t layer_count_ = 0;
  bool cancelled_ = false;
  bool idle_ = true;
  std::vector<Layer> layers_;
  std::vector<EditProgram> edits_;
  std::vector<Collector> reads_;
  std::vector<size_t> pass_reads_;   // of what a pass is told
  std::vector<size_t> token_edits_;  // of input_ids
  std::vector<Skip> skips_;
  std::vector<bool> hidden_;  // by position: attention_mask is 0 there
  bool any_hidden_ = false;
  std::vector<bool> outputs_;  // by position
  std::vector<TokenId> tokens_;
  std::vector<size_t> rows_touched_;  // by edit, where no program counts: skips
  size_t edit_count_ = 0;
  size_t all_hidden_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace phidias
