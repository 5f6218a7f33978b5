// The writing of a conversion plan, whatever kind of file takes the bytes.
#pragma once

#include <functional>
#include <span>

#include "api/convert_plan.h"
#include "base/thread_pool.h"
#include "phidias/convert.h"
#include "phidias/importance.h"
#include "phidias/status.h"

namespace phidias {

class Calibration;

// Hands the bytes of all tensors, in order, to `sink`, in pieces that end where a tensor ends or
// before. Rows are converted by all threads; those that are in their format already go straight
// from the mapped file, whose pages are released behind.
//   importance   weighs the columns of matrices that it names; may be null
//   calibration  knows what enters the matrices; may be null
// Errors: the sink's; kInvalidArgument for an importance of another model; kCancelled;
// kOutOfMemory.
Status write_plan(const ConversionPlan& plan, ParallelFor& threads, const Importance* importance,
                  Calibration* calibration,
                  const std::function<bool(const ConversionProgress&)>& progress,
                  const std::function<Status(std::span<const std::byte>)>& sink);

}  // namespace phidias
