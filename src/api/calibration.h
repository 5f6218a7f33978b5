// What enters each matrix of a model while it runs a text, for quantization with error feedback.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "api/convert_plan.h"
#include "model/taps.h"
#include "phidias/convert.h"
#include "phidias/engine.h"
#include "weights/dense.h"
#include "weights/error_feedback.h"

namespace phidias {

// The site whose values enter the matrices of a role.
std::optional<Site> input_site(TensorRole role);

// Second moments take width^2 floats for each matrix: they are kept for as many layers as memory
// allows, and the text is run again for the next ones.
class Calibration {
 public:
  // Loads the model at `path`. Errors: those of Model::load and Engine::create; kInvalidArgument
  // for fewer tokens than one window.
  static Result<std::unique_ptr<Calibration>> create(const std::filesystem::path& path,
                                                     const CalibrationText& text, size_t threads);
  ~Calibration();
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;

  using Progress = std::function<bool(size_t windows, size_t total)>;  // false cancels
  // For what is to be encoded in blocks of `block` columns; null where what enters the tensor is
  // not known. Valid until the next call. Errors: kCancelled, kOutOfMemory, those of Engine::step.
  Result<const ErrorFeedback*> feedback_for(const PlannedTensor& tensor, size_t block,
                                            const Progress& progress);
  DenseAlgebra& algebra();

 private:
  class Moments;
  Calibration(std::unique_ptr<Engine> engine, CalibrationText text);

  Status run_text(size_t first_layer, const Progress& progress);
  size_t layers_at_once() const;

  std::unique_ptr<Engine> engine_;
  CalibrationText text_;
  std::unique_ptr<DenseAlgebra> algebra_;
  std::unique_ptr<Moments> moments_;
  // The feedback that was asked for last: parts of a fused matrix share it.
  struct Key {
    Site site;
    size_t layer, block;
    bool operator==(const Key&) const = default;
  };
  std::optional<Key> key_;
  std::optional<ErrorFeedback> feedback_;
};

}  // namespace phidias
