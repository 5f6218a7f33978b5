// Which row of which image each image token of a sequence takes. The id -n is one token of image n;
// a run of them is the whole image, or the whole image several times.
#pragma once

#include <span>

#include "phidias/image.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// kInvalidArgument unless all of them are whole and of this width.
Status check_images(std::span<const ImageHandle> images, uint32_t hidden_size);

class ImageRows {
 public:
  // `before`: the tokens that the sequence holds. `images` must outlive the object.
  ImageRows(std::span<const ImageHandle> images, std::span<const TokenId> before);

  // The row for the token that comes next; null for one of the vocabulary. Errors:
  // kInvalidArgument for an image that there is not, and for a token that comes before the image
  // is complete.
  Result<const float*> next(TokenId token);

  // Whether two sequences show the same at a place where both have this token.
  static bool same(TokenId token, std::span<const ImageHandle> a, std::span<const ImageHandle> b);

 private:
  std::span<const ImageHandle> images_;
  TokenId last_ = 0;
  size_t run_ = 0;  // tokens of the image so far, where the last one is of an image
};

}  // namespace phidias
