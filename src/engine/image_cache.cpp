#include "engine/image_cache.h"

#include <utility>

namespace phidias {
namespace {

uint64_t bytes_of(const ImageHandle& image) { return image->values.size() * sizeof(float); }

}  // namespace

ImageHandle ImageCache::find(const std::string& content) {
  const auto at = by_content_.find(content);
  if (at == by_content_.end()) return nullptr;
  images_.splice(images_.begin(), images_, at->second);
  return images_.front();
}

void ImageCache::insert(ImageHandle image) {
  if (bytes_of(image) > budget_ || by_content_.contains(image->content)) return;
  while (bytes_ + bytes_of(image) > budget_) {
    bytes_ -= bytes_of(images_.back());
    by_content_.erase(images_.back()->content);
    images_.pop_back();
  }
  bytes_ += bytes_of(image);
  images_.push_front(std::move(image));
  by_content_.emplace(images_.front()->content, images_.begin());
}

}  // namespace phidias
