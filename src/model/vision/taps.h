// Where the vision tower can be looked into.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

// In the order in which they are passed. Letters as in weights.h; N rows of the image.
enum class VisionSite : uint8_t {
  kEmbeddings,   // [positions, W] of a tile, after the first norm
  kLayerOutput,  // [positions, W] of a tile
  kMerged,       // [N, 4 W]: lines of merged patches and separators
  kFeatures,     // [N, D]: what takes the place of the image's embeddings
};

// Consecutive rows where they lie: row r at data + r * width.
struct VisionRows {
  float* data = nullptr;
  size_t rows = 0;
  size_t width = 0;
};

// Called by the thread that encodes, between the parallel parts. What visit() writes is what the
// encoder goes on with.
class VisionTaps {
 public:
  virtual ~VisionTaps() = default;
  //   tile    0: the whole image; at kMerged and kFeatures 0
  //   layer   of kLayerOutput, else 0
  virtual void visit(VisionSite site, size_t tile, size_t layer, const VisionRows& rows) = 0;
};

}  // namespace phidias
