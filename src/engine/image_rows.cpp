#include "engine/image_rows.h"

namespace phidias {
namespace {

// The image that an id below 0 names; null where there is none.
const ImageFeatures* image_of(TokenId token, std::span<const ImageHandle> images) {
  const size_t index = static_cast<size_t>(-static_cast<int64_t>(token)) - 1;
  return index < images.size() ? images[index].get() : nullptr;
}

}  // namespace

Status check_images(std::span<const ImageHandle> images, uint32_t hidden_size) {
  for (size_t i = 0; i < images.size(); ++i) {
    const ImageFeatures* image = images[i].get();
    if (image != nullptr && image->tokens > 0 && image->hidden_size == hidden_size &&
        image->values.size() == size_t{image->tokens} * hidden_size) {
      continue;
    }
    return Error{Code::kInvalidArgument,
                 "image " + std::to_string(i + 1) + " was not encoded by an engine of this model",
                 {{}, {}, "images"}};
  }
  return {};
}

ImageRows::ImageRows(std::span<const ImageHandle> images, std::span<const TokenId> before)
    : images_(images) {
  if (before.empty() || before.back() >= 0) return;
  last_ = before.back();
  while (run_ < before.size() && before[before.size() - 1 - run_] == last_) ++run_;
}

Result<const float*> ImageRows::next(TokenId token) {
  if (token != last_) {
    const ImageFeatures* last = last_ < 0 ? image_of(last_, images_) : nullptr;
    if (last != nullptr && run_ % last->tokens != 0) {
      return Error{Code::kInvalidArgument,
                   "image " + std::to_string(-static_cast<int64_t>(last_)) + " has " +
                       std::to_string(last->tokens) + " tokens, but " + std::to_string(run_) +
                       " of them stand in a row",
                   {{}, {}, "prompt"}};
    }
    run_ = 0;
  }
  last_ = token;
  if (token >= 0) return static_cast<const float*>(nullptr);
  const ImageFeatures* image = image_of(token, images_);
  if (image == nullptr) {
    return Error{Code::kInvalidArgument,
                 "token id " + std::to_string(token) + " stands for image " +
                     std::to_string(-static_cast<int64_t>(token)) + ", but " +
                     (images_.empty() ? "there are no images"
                                      : "there are only " + std::to_string(images_.size())),
                 {{}, {}, "prompt"}};
  }
  return image->row(run_++ % image->tokens);
}

bool ImageRows::same(TokenId token, std::span<const ImageHandle> a,
                     std::span<const ImageHandle> b) {
  if (token >= 0) return true;
  const ImageFeatures* first = image_of(token, a);
  const ImageFeatures* second = image_of(token, b);
  return first != nullptr && second != nullptr &&
         (first == second || first->content == second->content);
}

}  // namespace phidias
