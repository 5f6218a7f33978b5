// Keeps one value of one layer, row by row as they come.
#pragma once

#include <optional>
#include <vector>

#include "base/memory.h"
#include "model/rope.h"
#include "model/taps.h"
#include "model/weights.h"
#include "phidias/tensors.h"
#include "phidias/trace.h"
#include "trace/edit_program.h"

namespace phidias {

// What derived values are computed with.
struct CollectorContext {
  const ModelSpec* spec = nullptr;
  const ModelWeights* weights = nullptr;
  const RopeTable* rope = nullptr;
  KvType kv = KvType::kF32;
};

// A row is found by its position: written again where it is run again, so the last epoch stays.
class Collector {
 public:
  // Takes no memory yet. Errors: kInvalidArgument with the read's path as the place, kUnsupported.
  static Result<Collector> compile(const Read& read, size_t number, size_t layer,
                                   const RequestShape& request, const CollectorContext& context);

  size_t read() const { return read_; }
  size_t layer() const { return layer_; }
  ValueId id() const { return id_; }
  Read::Moment moment() const { return moment_; }
  const std::vector<uint64_t>& shape() const { return shape_; }
  uint64_t bytes() const;
  size_t first_position() const { return at_.first(); }
  bool wants(size_t position) const { return at_.index(position) != PositionSet::kNone; }

  void allocate();
  void collect(const SiteRows& rows);
  void collect(const SitePattern& pattern);
  // Of a pass: tokens as they are run, and `mask` [positions so far], 0 where hidden.
  void collect(const BatchRun& run, const std::vector<bool>& hidden);
  // What was collected of the first `rows` positions: where fewer were run than were planned, the
  // others are cut off.
  Tensor take(size_t rows) &&;

 private:
  size_t offset(size_t index, size_t group) const;
  float* out(size_t index, size_t group);
  void blocks_seen_from(size_t position, size_t index);
  void contributions(const SiteRows& rows);

  CollectorContext context_;
  size_t read_ = 0;
  size_t layer_ = 0;
  ValueId id_ = ValueId::kLogits;
  Read::Moment moment_ = Read::Moment::kAfter;
  Segment segment_;
  PositionSet at_;
  PositionSet keys_;
  std::vector<uint32_t> heads_;     // that are selected
  std::vector<uint32_t> channels_;  // empty: all
  size_t entries_ = 0;              // of the last axis, that are kept
  bool heads_first_ = false;        // in memory, before the positions
  std::vector<uint64_t> shape_;
  Tensor tensor_;
};

}  // namespace phidias
