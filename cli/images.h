// --image and --crops: images for the models that see them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "command_options.h"
#include "phidias/engine.h"
#include "phidias/image.h"
#include "phidias/image_trace.h"

namespace phidias::cli {

// Encodes an image file and shows how far it is. kCancelled after Ctrl-C.
Result<ImageHandle> encode_shown(Engine& engine, const std::string& file, uint32_t crops);

struct ImageArguments {
  std::vector<std::string> files;
  uint32_t crops = 0;

  void declare(CommandOptions& command);
  static void declare_crops(CommandOptions& command, uint32_t& crops);
  // In the order in which they were given, the first is image 1.
  Result<std::vector<ImageHandle>> encode(Engine& engine) const;
  // The same, each image looked into.
  Result<std::vector<ImageTraced>> trace(Engine& engine, const std::vector<Read>& reads,
                                         const Edits& edits) const;
};

// The text with the tags of images [first, first + count) in front, each on a line of its own, as
// is usual.
std::string with_image_tags(std::string_view text, size_t first, size_t count);

}  // namespace phidias::cli
