// Image files to pixels: JPEG, PNG and WebP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "image/rgb_image.h"
#include "phidias/status.h"

namespace phidias {

// A larger file is refused unread.
inline constexpr uint64_t kMaxImageFileBytes = 256U << 20;

struct ImageLimits {
  uint64_t pixels = 64U << 20;  // width times height
};

// The pixels of an image file. Alpha is dropped, not blended; grey is repeated; of 16 bits the
// upper 8 are kept; an orientation tag and colour profiles are ignored: as the models' own
// preprocessing does, which decodes with Pillow. The size is read from the header and checked
// before anything is decoded.
//   name   of the file, for messages
// Errors: kUnsupported (another format, an animation), kCorrupt (damaged or cut off),
// kCapacityExceeded (more pixels than the limit), kOutOfMemory.
Result<RgbImage> decode_image(std::span<const std::byte> file, const std::string& name,
                              const ImageLimits& limits = {});

}  // namespace phidias
