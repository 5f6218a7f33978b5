// Any bytes as an image file: an error that names the file, or pixels of the size that it states,
// which can be cut into tiles.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "image/decode.h"
#include "image/hd_transform.h"
#include "image/tiles.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr phidias::ImageLimits kLimits{.pixels = 1U << 18};
  const auto image = phidias::decode_image(std::as_bytes(std::span(data, size)), "fuzz", kLimits);
  if (!image.ok()) {
    if (image.error().message.empty() || image.error().place.file != "fuzz") std::abort();
    return 0;
  }
  const uint64_t pixels = uint64_t{image->width} * image->height;
  if (pixels == 0 || pixels > kLimits.pixels || image->bytes.size() != 3 * pixels) std::abort();
  constexpr uint32_t kSide = 4;
  const auto geometry = phidias::hd_geometry(image->width, image->height, kSide, 4);
  if (!geometry.ok()) return 0;
  const phidias::ImageTiles tiles = phidias::make_tiles(
      phidias::hd_transform(*image, *geometry), kSide, {.mean = {0, 0, 0}, .deviation = {1, 1, 1}});
  if (tiles.count() != 1 + geometry->tiles()) std::abort();
  return 0;
}
