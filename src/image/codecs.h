// One function per file format, for decode.cpp. Each checks the size that the header states before
// it takes memory for the pixels, and may throw std::bad_alloc.
#pragma once

#include "image/decode.h"

namespace phidias {

// kCapacityExceeded where the image has too many pixels, kCorrupt where it has none.
Status check_image_size(uint64_t width, uint64_t height, const std::string& name,
                        const ImageLimits& limits);

// kCorrupt with what the codec says.
Error damaged_image(const std::string& name, const std::string& reason);

Result<RgbImage> decode_jpeg(std::span<const std::byte> file, const std::string& name,
                             const ImageLimits& limits);
Result<RgbImage> decode_png(std::span<const std::byte> file, const std::string& name,
                            const ImageLimits& limits);
Result<RgbImage> decode_webp(std::span<const std::byte> file, const std::string& name,
                             const ImageLimits& limits);

}  // namespace phidias
