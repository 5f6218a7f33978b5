// Images for the models that see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phidias/status.h"

namespace phidias {

class Engine;

// What a model sees of an image: a row for each of its tokens, which stands where an embedding
// would. Immutable; shared by all sequences that show the image.
struct ImageFeatures {
  std::string content;  // tells images apart: a checksum of the file and of how it was cut
  uint32_t width = 0;   // of the image, in pixels
  uint32_t height = 0;
  uint32_t rows = 0;  // of tiles that it was cut into
  uint32_t columns = 0;
  uint32_t tokens = 0;
  uint32_t hidden_size = 0;
  std::vector<float> values;  // [tokens, hidden_size]

  const float* row(size_t token) const { return values.data() + token * hidden_size; }
};
using ImageHandle = std::shared_ptr<const ImageFeatures>;

// Where the encoding of an image can be looked into, in the order in which it is passed. Letters: P
// positions of a tile, its patches and the class token before them; W width of the tower; N tokens
// of the image.
enum class ImageSite : uint8_t {
  kEmbeddings,   // [P, W] of a tile, after the tower's first norm
  kLayerOutput,  // [P, W] of a tile
  kMerged,       // [N, 4 W]: lines of merged patches and separators
  kFeatures,     // [N, hidden_size]: what stands where embeddings would
};

// Rows where they lie: row r at data + r * width. What is written there is what goes on.
struct ImageView {
  ImageSite site = ImageSite::kFeatures;
  size_t tile = 0;   // 0: the whole image; the others row by row. 0 at the last two sites
  size_t layer = 0;  // of kLayerOutput
  float* data = nullptr;
  size_t rows = 0;
  size_t width = 0;
};
// Called by the thread that encodes.
using ImageTap = std::function<void(const ImageView&)>;

struct ImageOptions {
  uint32_t crops = 0;               // tiles at most, 1 to 256; 0: as many as the checkpoint states
  uint64_t max_pixels = 64U << 20;  // width times height; a larger image is refused unread
  // Called before each of `total` tiles is encoded; false ends the work. Not called where the
  // image is known already.
  std::function<bool(size_t done, size_t total)> progress = {};
  // Sees and may change what is computed. Such an image is computed in any case and not kept for
  // others, and its `content` is its own.
  ImageTap tap = {};
};

// Decodes a JPEG, PNG or WebP file, cuts it into tiles and runs the model's vision tower over them,
// on all threads of the engine. The features of the images used last are kept (EngineOptions::
// image_cache) and found again by the file's content. They are part of what the engine computes:
// their bits depend on its weights, kernel table and numerics alone.
//   name   of the file, for messages
// One thread at a time with everything else of the engine. Errors: kUnsupported (a model without a
// vision tower, another file format, an animation), kCorrupt (a damaged image), kCapacityExceeded
// (more pixels than max_pixels), kInvalidArgument (too narrow to be cut; crops), kCancelled,
// kOutOfMemory.
Result<ImageHandle> encode_image(Engine& engine, std::span<const std::byte> file,
                                 const std::string& name, const ImageOptions& options = {});

// The same of a file by its path, of 256 MiB at most. Errors also: kNotFound, kIo.
Result<ImageHandle> encode_image_file(Engine& engine, const std::string& path,
                                      const ImageOptions& options = {});

}  // namespace phidias
