#include "image/decode.h"

#include <new>
#include <string_view>

#include "image/codecs.h"

namespace phidias {
namespace {

using namespace std::string_view_literals;

struct Codec {
  std::string_view signature;  // the file's first bytes
  size_t offset;               // of `tag`, a second mark
  std::string_view tag;
  Result<RgbImage> (*decode)(std::span<const std::byte>, const std::string&, const ImageLimits&);
};

constexpr Codec kCodecs[] = {
    {"\xFF\xD8\xFF"sv, 0, ""sv, decode_jpeg},
    {"\x89PNG\r\n\x1A\n"sv, 0, ""sv, decode_png},
    {"RIFF"sv, 8, "WEBP"sv, decode_webp},
};

}  // namespace

Status check_image_size(uint64_t width, uint64_t height, const std::string& name,
                        const ImageLimits& limits) {
  if (width == 0 || height == 0) return damaged_image(name, "it has no pixels");
  if (width > limits.pixels / height) {
    return Error{Code::kCapacityExceeded,
                 "the image has " + std::to_string(width) + " x " + std::to_string(height) +
                     " pixels, and at most " + std::to_string(limits.pixels) +
                     " are taken; make it smaller",
                 {name, {}, {}}};
  }
  return {};
}

Error damaged_image(const std::string& name, const std::string& reason) {
  return {Code::kCorrupt, "the image is damaged: " + reason, {name, {}, {}}};
}

Result<RgbImage> decode_image(std::span<const std::byte> file, const std::string& name,
                              const ImageLimits& limits) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  for (const Codec& codec : kCodecs) {
    if (!text.starts_with(codec.signature) || text.size() < codec.offset ||
        !text.substr(codec.offset).starts_with(codec.tag)) {
      continue;
    }
    try {
      return codec.decode(file, name, limits);
    } catch (const std::bad_alloc&) {
      return Error{Code::kOutOfMemory, "no memory for the image's pixels", {name, {}, {}}};
    }
  }
  return Error{Code::kUnsupported, "is not a JPEG, PNG or WebP image; convert it", {name, {}, {}}};
}

}  // namespace phidias
