// Images as Python holds them.
#pragma once

#include <vector>

#include "phidias/image.h"

namespace phidias::python {

// What an engine has made of an image: shared and immutable.
struct Image {
  ImageHandle handle;
};

inline std::vector<ImageHandle> handles_of(const std::vector<Image>& images) {
  std::vector<ImageHandle> handles;
  handles.reserve(images.size());
  for (const Image& image : images) handles.push_back(image.handle);
  return handles;
}

}  // namespace phidias::python
