// Images to rows of the decoder: tower, merging, separators, projection.
#pragma once

#include <functional>
#include <vector>

#include "image/tiles.h"
#include "model/run_context.h"
#include "model/vision/spec.h"
#include "model/vision/weights.h"
#include "phidias/image.h"

namespace phidias {

// Called before each of `total` tiles; false ends the work.
using TileProgress = std::function<bool(size_t done, size_t total)>;

// The features [spec.image_rows(rows, columns), D] of an image: its tiles line by line, then the
// whole image; empty where `progress` ended the work. They depend on the pixels alone, not on the
// threads.
//   progress, tap   may be empty
// May throw std::bad_alloc.
std::vector<float> encode_tiles(const VisionSpec& spec, const VisionWeights& weights,
                                const ImageTiles& tiles, RunContext& context,
                                const TileProgress& progress = {}, const ImageTap& tap = {});

}  // namespace phidias
