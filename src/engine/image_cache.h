// The features of the images used last, by what they were made of.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

#include "phidias/image.h"

namespace phidias {

// Not thread safe.
class ImageCache {
 public:
  // Keeps `budget` bytes at most, counted as the features' values.
  explicit ImageCache(uint64_t budget) : budget_(budget) {}

  // Null where it is not known. What is found counts as used just now.
  ImageHandle find(const std::string& content);
  // Forgets what has not been used for longest until there is room; keeps nothing that is larger
  // than the whole budget.
  void insert(ImageHandle image);
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t budget_;
  uint64_t bytes_ = 0;
  std::list<ImageHandle> images_;  // the one used last comes first
  std::unordered_map<std::string, std::list<ImageHandle>::iterator> by_content_;
};

}  // namespace phidias
