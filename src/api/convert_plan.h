// What a conversion is to write: tensors in order, each with its name, its rows and its format.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "api/recipes.h"
#include "formats/checkpoint.h"
#include "model/spec.h"
#include "model/weights.h"
#include "phidias/convert.h"
#include "phidias/status.h"
#include "weights/matrix.h"

namespace phidias {

struct PlannedTensor {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first
  Matrix rows;                  // all dimensions but the last are rows
  TensorRole role = TensorRole::kOther;
  size_t layer = 0;
  // Head size where the rows of each head are to be written in the order of interleaved rotation
  // (MatrixPart); 0: as they are.
  size_t interleaved_head = 0;
  Format format = Format::kF32;  // to be written

  uint64_t bytes() const { return format_row(format).matrix_bytes(rows.rows, rows.cols); }
};
using ConversionPlan = std::vector<PlannedTensor>;

// The decoder's bound weights by the names and in the layout that llama.cpp has for `spec.type`;
// where it has none, as plan_folder(). Vectors are written in F32. The weights must outlive the
// plan.
Result<ConversionPlan> plan_gguf(const ModelSpec& spec, const ModelWeights& weights);
// The same by the names and in the layout of the published code.
Result<ConversionPlan> plan_folder(const ModelSpec& spec, const ModelWeights& weights);
// The tensors of a checkpoint as they stand there, under the names that they have.
ConversionPlan plan_copy(std::span<const TensorEntry> tensors, const TensorNames& names);

// LongRoPE's factors before all other tensors, where the model has them. The spec must outlive the
// plan.
void add_long_rope_factors(ConversionPlan& plan, const ModelSpec& spec);

// Every tensor's format by the recipe.
void choose_formats(ConversionPlan& plan, const Recipe& recipe, size_t layers);

// Bytes, types and bits of a plan; seconds are the caller's.
ConversionReport describe_plan(const ConversionPlan& plan);

}  // namespace phidias
