#include "images.h"

#include <filesystem>

#include "interrupt.h"
#include "phidias/prompt.h"
#include "terminal/progress_bar.h"

namespace phidias::cli {

namespace {

// Calls `encode` with options that show how far it is.
template <typename Encode>
auto shown(const std::string& file, uint32_t crops, Encode&& encode) {
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  const std::string label = "reading " + std::filesystem::path(file).filename().string();
  ImageOptions options;
  options.crops = crops;
  options.progress = [&](size_t done, size_t total) {
    bar.update(label, done, total);
    return !interrupted();
  };
  return encode(options);
}

}  // namespace

Result<ImageHandle> encode_shown(Engine& engine, const std::string& file, uint32_t crops) {
  return shown(file, crops, [&](const ImageOptions& options) {
    return encode_image_file(engine, file, options);
  });
}

void ImageArguments::declare(CommandOptions& command) {
  command
      .add_option("--image", files,
                  "An image (JPEG, PNG, WebP) for a model that sees them. Repeatable; in text the "
                  "tag <|image_n|> stands for the n-th, in ids -n for each of its tokens")
      .one_at_a_time();
  declare_crops(command, crops);
}

void ImageArguments::declare_crops(CommandOptions& command, uint32_t& crops) {
  command
      .add_option("--crops", crops,
                  "Tiles that an image is cut into at most; default: what the checkpoint states. "
                  "More show finer detail and take more tokens")
      .in_range(1, 256);
}

Result<std::vector<ImageHandle>> ImageArguments::encode(Engine& engine) const {
  std::vector<ImageHandle> images;
  for (const std::string& file : files) {
    auto image = encode_shown(engine, file, crops);
    if (!image.ok()) return std::move(image).error();
    images.push_back(std::move(*image));
  }
  return images;
}

Result<std::vector<ImageTraced>> ImageArguments::trace(Engine& engine,
                                                       const std::vector<Read>& reads,
                                                       const Edits& edits) const {
  std::vector<ImageTraced> images;
  for (const std::string& file : files) {
    auto image = shown(file, crops, [&](const ImageOptions& options) {
      return trace_image_file(engine, file, reads, edits, options);
    });
    if (!image.ok()) return std::move(image).error();
    images.push_back(std::move(*image));
  }
  return images;
}

std::string with_image_tags(std::string_view text, size_t first, size_t count) {
  std::string tagged;
  for (size_t i = 0; i < count; ++i) tagged += image_tag(first + i) + "\n";
  return tagged += text;
}

}  // namespace phidias::cli
