// What a checkpoint's files say about its vision tower and about how images are prepared for it.
#pragma once

#include "base/json.h"
#include "model/vision/spec.h"
#include "phidias/status.h"

namespace phidias {

// From config.json: "vision_config" has the tower's sizes; published files have none, and then they
// are those of CLIP ViT-L/14-336. How images are cut is as in read_image_processing() without a
// file. Errors: kCorrupt, kUnsupported with the JSON path.
Result<VisionSpec> vision_spec_from_config(const JsonReader& config);

// From preprocessor_config.json: tiles at most, mean and deviation of the channels.
Status read_image_processing(const JsonReader& preprocessor, VisionSpec& spec);

// So many tiles are the most that anybody may ask for.
inline constexpr uint32_t kMaxCrops = 256;

}  // namespace phidias
