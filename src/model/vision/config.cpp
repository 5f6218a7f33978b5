#include "model/vision/config.h"

#include <algorithm>
#include <string>

#include "base/try.h"
#include "kernels/table.h"
#include "model/config.h"

namespace phidias {
namespace {

// Sides beyond this are no image that a tower reads.
constexpr uint32_t kMaxSide = 4096;

// A choice that the file may leave out and of which one kind is run.
Status expect_text(const JsonReader& config, const char* key, const std::string& only) {
  PHIDIAS_TRY(const auto value, config.optional_string(key));
  if (!value || *value == only) return {};
  return config.error(Code::kUnsupported,
                      "is \"" + *value + "\"; only \"" + only + "\" is supported", key);
}

Status expect_flag(const JsonReader& config, const char* key, bool only) {
  PHIDIAS_TRY(const auto value, config.optional_bool(key));
  if (!value || *value == only) return {};
  return config.error(Code::kUnsupported,
                      std::string("must be ") + (only ? "true" : "false") + " to be supported",
                      key);
}

Result<uint32_t> size_or(const JsonReader& config, const char* key, uint32_t otherwise) {
  if (!config.has(key)) return otherwise;
  return size_value(config, key);
}

// How many layers run: the output of layer "layer_idx", counted from the embeddings (0) or from the
// end, is used.
Result<uint32_t> running_layers(const JsonReader& processor, uint32_t stored) {
  PHIDIAS_TRY(const auto index, processor.optional_number("layer_idx"));
  const double wanted = index.value_or(-2);
  const double layers = wanted < 0 ? stored + 1 + wanted : wanted;
  if (layers >= 0 && layers <= stored && layers == static_cast<uint32_t>(layers))
    return static_cast<uint32_t>(layers);
  return processor.error(Code::kCorrupt,
                         "names no layer of the " + std::to_string(stored) + " that there are",
                         "layer_idx");
}

Status check_sizes(const JsonReader& config, const VisionSpec& spec) {
  if (spec.side > kMaxSide || spec.side % spec.patch != 0 || spec.grid() % 2 != 0) {
    return config.error(Code::kUnsupported,
                        "images of " + std::to_string(spec.side) + " pixels in patches of " +
                            std::to_string(spec.patch) +
                            "; an even number of patches along a side is needed",
                        "image_size");
  }
  if (spec.width % spec.heads != 0 || spec.head_dim() % 2 != 0 || spec.head_dim() > kMaxHeadDim) {
    return config.error(Code::kUnsupported,
                        "a width of " + std::to_string(spec.width) + " in " +
                            std::to_string(spec.heads) + " heads; heads of an even size up to " +
                            std::to_string(kMaxHeadDim) + " are supported",
                        "num_attention_heads");
  }
  return {};
}

Status read_statistics(const JsonReader& preprocessor, const char* key,
                       std::array<float, 3>& values) {
  PHIDIAS_TRY(const auto numbers, preprocessor.optional_numbers(key));
  if (!numbers) return {};
  const bool deviation = std::string_view(key) == "image_std";
  const bool valid = numbers->size() == values.size() &&
                     std::all_of(numbers->begin(), numbers->end(), [&](double n) {
                       return deviation ? n > 0 && n < 1e6 : n > -1e6 && n < 1e6;
                     });
  if (!valid)
    return preprocessor.error(Code::kCorrupt, "must be a number for each of three channels", key);
  std::transform(numbers->begin(), numbers->end(), values.begin(),
                 [](double n) { return static_cast<float>(n); });
  return {};
}

}  // namespace

Result<VisionSpec> vision_spec_from_config(const JsonReader& config) {
  const JsonReader layout = config.child("embd_layer");
  PHIDIAS_CHECK_OK(expect_text(layout, "embedding_cls", "image"));
  PHIDIAS_CHECK_OK(expect_text(layout, "hd_transform_order", "sub_glb"));
  PHIDIAS_CHECK_OK(expect_text(layout, "projection_cls", "mlp"));
  PHIDIAS_CHECK_OK(expect_flag(layout, "use_hd_transform", true));
  PHIDIAS_CHECK_OK(expect_flag(layout, "with_learnable_separator", true));
  const JsonReader processor = config.child("img_processor");
  PHIDIAS_CHECK_OK(expect_text(processor, "name", "clip_vision_model"));
  PHIDIAS_CHECK_OK(expect_text(processor, "type_feature", "patch"));

  const JsonReader sizes = config.child("vision_config");
  VisionSpec spec;
  PHIDIAS_TRY(const uint32_t stated_width, size_or(processor, "image_dim_out", 1024));
  PHIDIAS_TRY(spec.width, size_or(sizes, "hidden_size", stated_width));
  if (spec.width != stated_width) {
    return processor.error(Code::kCorrupt,
                           "is " + std::to_string(stated_width) +
                               ", but the tower's hidden_size is " + std::to_string(spec.width),
                           "image_dim_out");
  }
  PHIDIAS_TRY(spec.stored_layers, size_or(sizes, "num_hidden_layers", 24));
  PHIDIAS_TRY(spec.layers, running_layers(processor, spec.stored_layers));
  PHIDIAS_TRY(spec.heads, size_or(sizes, "num_attention_heads", 16));
  PHIDIAS_TRY(spec.ffn_width, size_or(sizes, "intermediate_size", 4096));
  PHIDIAS_TRY(spec.side, size_or(sizes, "image_size", 336));
  PHIDIAS_TRY(spec.patch, size_or(sizes, "patch_size", 14));
  PHIDIAS_CHECK_OK(expect_text(sizes, "hidden_act", "quick_gelu"));
  if (sizes.has("layer_norm_eps")) {
    PHIDIAS_TRY(spec.norm_epsilon, epsilon_from_config(sizes, "layer_norm_eps"));
  }
  PHIDIAS_CHECK_OK(check_sizes(sizes, spec));
  const uint32_t tokens = spec.merged_grid() * spec.merged_grid();
  PHIDIAS_TRY(const uint32_t stated_tokens, size_or(processor, "num_img_tokens", tokens));
  if (stated_tokens != tokens) {
    return processor.error(Code::kCorrupt,
                           "is " + std::to_string(stated_tokens) +
                               ", but a tile of these sizes has " + std::to_string(tokens),
                           "num_img_tokens");
  }
  // The means and deviations of CLIP's training images; tiles as in Phi-3.5-vision.
  spec.crops = 4;
  spec.statistics = {.mean = {0.48145466F, 0.4578275F, 0.40821073F},
                     .deviation = {0.26862954F, 0.26130258F, 0.27577711F}};
  return spec;
}

Status read_image_processing(const JsonReader& preprocessor, VisionSpec& spec) {
  if (preprocessor.has("num_crops")) {
    PHIDIAS_TRY(spec.crops, size_value(preprocessor, "num_crops"));
    if (spec.crops > kMaxCrops) {
      return preprocessor.error(Code::kUnsupported,
                                "is " + std::to_string(spec.crops) + "; at most " +
                                    std::to_string(kMaxCrops) + " tiles are supported",
                                "num_crops");
    }
  }
  PHIDIAS_CHECK_OK(read_statistics(preprocessor, "image_mean", spec.statistics.mean));
  return read_statistics(preprocessor, "image_std", spec.statistics.deviation);
}

}  // namespace phidias
