#include "phidias/image.h"

#include <openssl/evp.h>

#include <array>
#include <new>

#include "api/engine_impl.h"
#include "api/model_impl.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "image/decode.h"
#include "image/hd_transform.h"
#include "model/vision/config.h"
#include "model/vision/encoder.h"
#include "phidias/engine.h"

namespace phidias {
namespace {

// The file's SHA-256 and what else decides how it is cut.
std::string content_of(std::span<const std::byte> file, const VisionSpec& spec) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(file.data(), file.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return std::string(reinterpret_cast<const char*>(digest.data()), size) + "/" +
         std::to_string(spec.crops);
}

Result<std::shared_ptr<ImageFeatures>> encode(const ModelSpec& model, const VisionSpec& spec,
                                              const VisionWeights& weights,
                                              std::span<const std::byte> file,
                                              const std::string& name, const ImageOptions& options,
                                              RunContext& context) {
  auto features = std::make_shared<ImageFeatures>();
  ImageTiles tiles;
  {
    PHIDIAS_TRY(const RgbImage image, decode_image(file, name, {.pixels = options.max_pixels}));
    features->width = image.width;
    features->height = image.height;
    auto geometry = hd_geometry(image.width, image.height, spec.side, spec.crops);
    if (!geometry.ok()) {
      Error error = std::move(geometry).error();
      error.place.file = name;
      return error;
    }
    tiles = make_tiles(hd_transform(image, *geometry), spec.side, spec.statistics);
  }
  features->rows = tiles.rows;
  features->columns = tiles.columns;
  features->tokens = static_cast<uint32_t>(spec.image_rows(tiles.rows, tiles.columns));
  features->hidden_size = model.width;
  features->values = encode_tiles(spec, weights, tiles, context, options.progress, options.tap);
  if (features->values.empty()) return Error{Code::kCancelled, "was interrupted", {name, {}, {}}};
  return features;
}

}  // namespace

Result<ImageHandle> encode_image(Engine& engine, std::span<const std::byte> file,
                                 const std::string& name, const ImageOptions& options) {
  const Model::Impl& model = engine.model().impl();
  if (!model.spec.vision || !model.weights.vision) {
    return Error{Code::kUnsupported,
                 "a model of type " + model.spec.type +
                     " sees no images; Phi-3-vision and Phi-3.5-vision do",
                 {name, {}, {}}};
  }
  if (options.crops > kMaxCrops) {
    return Error{
        Code::kInvalidArgument,
        "is " + std::to_string(options.crops) + ", expected 1 to " + std::to_string(kMaxCrops),
        {{}, {}, "crops"}};
  }
  VisionSpec spec = *model.spec.vision;
  if (options.crops != 0) spec.crops = options.crops;
  auto& [cache, context, tapped] = engine.images();
  const std::string content =
      content_of(file, spec) + (options.tap ? "/" + std::to_string(++tapped) : "");
  if (ImageHandle known = cache.find(content)) return known;
  try {
    PHIDIAS_TRY(const auto features,
                encode(model.spec, spec, *model.weights.vision, file, name, options, context));
    features->content = content;
    if (!options.tap) cache.insert(features);
    return ImageHandle(features);
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory,
                 "no memory to encode the image; make it smaller, or allow fewer crops",
                 {name, {}, {}}};
  }
}

Result<ImageHandle> encode_image_file(Engine& engine, const std::string& path,
                                      const ImageOptions& options) {
  PHIDIAS_TRY(const std::string file, read_text_file(path, kMaxImageFileBytes));
  return encode_image(engine, std::as_bytes(std::span(file)), path, options);
}

}  // namespace phidias
