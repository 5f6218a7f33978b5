#include <webp/decode.h>

#include "base/try.h"
#include "image/codecs.h"

namespace phidias {

Result<RgbImage> decode_webp(std::span<const std::byte> file, const std::string& name,
                             const ImageLimits& limits) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes, file.size(), &features) != VP8_STATUS_OK)
    return damaged_image(name, "its header cannot be read");
  if (features.has_animation != 0) {
    return Error{
        Code::kUnsupported, "is an animation; give one of its frames as an image", {name, {}, {}}};
  }
  PHIDIAS_CHECK_OK(check_image_size(static_cast<uint64_t>(features.width),
                                    static_cast<uint64_t>(features.height), name, limits));
  RgbImage image(static_cast<uint32_t>(features.width), static_cast<uint32_t>(features.height));
  if (WebPDecodeRGBInto(bytes, file.size(), image.bytes.data(), image.bytes.size(),
                        static_cast<int>(image.stride())) == nullptr) {
    return damaged_image(name, "its pixels cannot be read");
  }
  return image;
}

}  // namespace phidias
