// The gradient reads of a request: what they are made of, and the backward pass that fills them.
#pragma once

#include <memory>
#include <vector>

#include "gradient/objective.h"
#include "gradient/stored_run.h"
#include "phidias/metric.h"
#include "trace/collector.h"
#include "trace/edit_derivative.h"
#include "trace/sequence_trace.h"

namespace phidias {

// A metric's terms at positions of a request. Errors: kInvalidArgument, kUnsupported (a value that
// the model lacks, or that has no rows) with the term as the place.
Result<Objective> compile_metric(const Metric& metric, const RequestShape& request);

// Whether a value has a gradient: all but integers and what is derived of others.
bool has_gradient(ValueId id);

class GradientTrace {
 public:
  // The reads with Moment::kGradient. Errors: as Trace::plan().
  static Result<GradientTrace> compile(const TraceRequest& request, const Metric& metric,
                                       std::span<const GradientFactor> factors,
                                       const CollectorContext& context);

  const Objective& objective() const { return objective_; }
  void add_to(TracePlan& plan) const;
  // Before the run that will be walked back. Throws std::bad_alloc.
  void follow(SequenceTrace& run) { derivatives_->follow(run); }
  // Walks the stored run backwards and appends the tensors that were asked for. Errors:
  // kOutOfMemory, kUnsupported.
  Status run(const KernelTable& kernels, ParallelFor& threads, const StoredRun& run,
             std::vector<Traced::Entry>& to);

 private:
  const ModelSpec* spec_ = nullptr;
  const ModelWeights* weights_ = nullptr;
  Objective objective_;
  std::vector<GradientScale> scales_;
  std::vector<Collector> reads_;
  std::unique_ptr<EditDerivatives> derivatives_;
  std::unique_ptr<SequenceTrace> edits_;  // that the run is replayed with; null: none
};

}  // namespace phidias
