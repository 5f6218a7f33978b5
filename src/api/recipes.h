// Recipes: which tensors of a model get which number format. One row each, in recipes.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "phidias/convert.h"
#include "phidias/status.h"
#include "quant/format.h"

namespace phidias {

// What a tensor is for. What is no matrix of a product keeps its type.
enum class TensorRole : uint8_t {
  kOther,
  kEmbedding,
  kHead,  // also an embedding that is the head
  kQkv,
  kQueryKey,
  kValue,
  kAttentionOutput,
  kGateUp,
  kDown,
  kTower,  // a matrix of the vision tower or of the projection behind it
};

struct RecipeRule {
  enum class Layers : uint8_t {
    kAll,
    kSome,  // the first and the last eighth, and every third between them
  };
  TensorRole role;
  std::string_view format;
  Layers layers = Layers::kAll;
};

struct Recipe {
  static constexpr uint32_t kNoFileType = 0xFFFFFFFF;

  WeightRecipe shown;
  std::string_view base;             // of matrices that no rule names; empty: as they are
  uint32_t file_type = kNoFileType;  // llama.cpp's number (general.file_type)
  std::vector<RecipeRule> rules = {};

  //   source   what the tensor is stored in now
  //   returns  the format to write, of 8 bits at least for kTower; where rows of `cols` values are
  //   no whole blocks of the wanted
  //            one, the smallest larger format of whose blocks they are
  Format choose(TensorRole role, size_t layer, size_t layers, size_t cols, Format source) const;
};

// Errors: kInvalidArgument listing the names.
Result<const Recipe*> find_recipe(std::string_view name);

}  // namespace phidias
