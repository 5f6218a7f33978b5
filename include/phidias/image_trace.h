// The encoding of an image with some of its named values kept, some of them changed: those of the
// modules "vision" and "vision.layers". What follows in the decoder is Trace's (phidias/trace.h),
// which takes the image that comes out of this.
//
//   auto seen = trace_image_file(engine, "cat.jpg", {{kValues.vision.layers[5].block_output}});
//   const Tensor& patches = *seen->traced.find("vision.layers.5.block_output");
//   Trace trace(engine, ids, {.images = {seen->image}});
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "phidias/edits.h"
#include "phidias/image.h"
#include "phidias/status.h"
#include "phidias/trace.h"

namespace phidias {

struct ImageTraced {
  ImageHandle image;  // with what the edits made of it
  Traced traced;
};

// As encode_image(); the image is computed in any case and, where there are edits, kept for nobody
// else. Positions are those within a tile for values [tile, patch, tower_size], where 0 is the
// class token, and an edit applies to every tile; for the others they are the image's tokens.
//   options.tap   is called before the reads and edits of a site
// Errors: those of encode_image(); kInvalidArgument and kUnsupported for reads and edits that do
// not fit, with their place.
Result<ImageTraced> trace_image(Engine& engine, std::span<const std::byte> file,
                                const std::string& name, const std::vector<Read>& reads,
                                const Edits& edits = {}, const ImageOptions& options = {});
Result<ImageTraced> trace_image_file(Engine& engine, const std::string& path,
                                     const std::vector<Read>& reads, const Edits& edits = {},
                                     const ImageOptions& options = {});

}  // namespace phidias
