#include "api/recipes.h"

#include <algorithm>

#include "quant/fitting.h"
#include "weights/matrix.h"

namespace phidias {
namespace {

using enum TensorRole;
constexpr auto kSome = RecipeRule::Layers::kSome;

// The mixtures with llama.cpp's names are llama.cpp's, so that figures can be compared.
const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> rows = {
      {{"file", "every tensor in the type that it has"}, ""},
      {{"f32", "32-bit floats"}, "F32", 0},
      {{"f16", "16-bit floats"}, "F16", 1},
      {{"bf16", "the upper half of 32-bit floats: what the models are published in"}, "BF16", 32},
      {{"q8_0", "8 bits, 8.5 with scales: nearly lossless"}, "Q8_0", 7},
      {{"q6_k", "6.56 bits"}, "Q6_K", 18},
      {{"q5_0", "5.5 bits, head Q6_K"}, "Q5_0", 8, {{kHead, "Q6_K"}}},
      {{"q5_1", "6 bits, head Q6_K"}, "Q5_1", 9, {{kHead, "Q6_K"}}},
      {{"q4", "4.19 bits: this program's own type, all of it"}, "Q4"},
      {{"q4_m", "4.19 bits, more for the head and half of the down projections"},
       "Q4",
       Recipe::kNoFileType,
       {{kHead, "Q6_K"}, {kValue, "Q6_K", kSome}, {kDown, "Q6_K", kSome}}},
      {{"q4_l", "4.19 bits, more for the head, the attention and half of the down projections"},
       "Q4",
       Recipe::kNoFileType,
       {{kHead, "Q6_K"},
        {kQkv, "Q5_K"},
        {kQueryKey, "Q5_K"},
        {kValue, "Q5_K"},
        {kAttentionOutput, "Q5_K"},
        {kDown, "Q6_K", kSome}}},
      {{"q4_0", "4.5 bits, head Q6_K"}, "Q4_0", 2, {{kHead, "Q6_K"}}},
      {{"q4_1", "5 bits, head Q6_K"}, "Q4_1", 3, {{kHead, "Q6_K"}}},
      {{"q4_k_m", "4.5 bits; more for the head, values and half of the down projections"},
       "Q4_K",
       15,
       {{kHead, "Q6_K"}, {kQkv, "Q5_K"}, {kValue, "Q6_K", kSome}, {kDown, "Q6_K", kSome}}},
      {{"q5_k_m", "5.5 bits; more for the head, values and half of the down projections"},
       "Q5_K",
       17,
       {{kHead, "Q6_K"}, {kQkv, "Q6_K"}, {kValue, "Q6_K", kSome}, {kDown, "Q6_K", kSome}}},
      {{"q4_k", "4.5 bits, all of it"}, "Q4_K", 14},
      {{"q5_k", "5.5 bits, all of it"}, "Q5_K", 16},
  };
  return rows;
}

bool in_some(size_t layer, size_t layers) {
  const size_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

}  // namespace

std::span<const WeightRecipe> weight_recipes() {
  static const std::vector<WeightRecipe> shown = [] {
    std::vector<WeightRecipe> all;
    for (const Recipe& recipe : recipes()) all.push_back(recipe.shown);
    return all;
  }();
  return shown;
}

Result<const Recipe*> find_recipe(std::string_view name) {
  std::string known;
  for (const Recipe& recipe : recipes()) {
    if (std::equal(name.begin(), name.end(), recipe.shown.name.begin(), recipe.shown.name.end(),
                   [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; }))
      return &recipe;
    known += (known.empty() ? "" : ", ") + std::string(recipe.shown.name);
  }
  return Error{Code::kInvalidArgument,
               "\"" + std::string(name) + "\" is not a recipe; choose one of " + known,
               {{}, {}, "type"}};
}

Format Recipe::choose(TensorRole role, size_t layer, size_t layers, size_t cols,
                      Format source) const {
  if (role == kOther || base.empty()) return source;
  std::string_view name = base;
  for (const RecipeRule& rule : rules) {
    if (rule.role == role && (rule.layers == RecipeRule::Layers::kAll || in_some(layer, layers)))
      name = rule.format;
  }
  const Format wanted = *format_from_name(name);
  return fitting(role == kTower ? with_eight_bits(wanted) : wanted, cols);
}

}  // namespace phidias
