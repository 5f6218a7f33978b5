// A sequence that is open, and looked into, for the time of a run.
#pragma once

#include <utility>

#include "engine/stepper.h"

namespace phidias {

class TappedSequence {
 public:
  // Opens one. `taps` may be null, and must outlive the steps.
  TappedSequence(Stepper& stepper, const SequenceOptions& options, RunTaps* taps)
      : TappedSequence(stepper, stepper.open(options), taps) {}
  // Takes over one that is open, a fork as a rule.
  TappedSequence(Stepper& stepper, SequenceId id, RunTaps* taps) : stepper_(&stepper), id_(id) {
    stepper.attach(id, taps);
  }
  ~TappedSequence() {
    if (stepper_ != nullptr) stepper_->close(id_);
  }
  TappedSequence(TappedSequence&& other) noexcept
      : stepper_(std::exchange(other.stepper_, nullptr)), id_(other.id_) {}
  TappedSequence& operator=(TappedSequence&&) = delete;

  SequenceId id() const { return id_; }

 private:
  Stepper* stepper_;
  SequenceId id_;
};

}  // namespace phidias
