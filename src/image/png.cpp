// libpng reports errors by a call that must not return. It jumps back into the function that called
// the library; these functions own nothing that would have to be destroyed.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "base/try.h"
#include "image/codecs.h"

namespace phidias {
namespace {

class PngDecoder {
 public:
  explicit PngDecoder(std::span<const std::byte> file) : rest_(file) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  const char* message() const { return message_; }
  uint32_t width() const { return width_; }
  uint32_t height() const { return height_; }

  // Each returns false on an error, with message() set.
  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      std::strcpy(message_, "no memory to read it");
      return false;
    }
    png_set_read_fn(png_, this, read);
    png_read_info(png_, info_);
    width_ = png_get_image_width(png_, info_);
    height_ = png_get_image_height(png_, info_);
    return true;
  }
  // Into rows of 3 * width() bytes.
  bool read_pixels(uint8_t* out) {
    if (setjmp(jump_) != 0) return false;
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const size_t stride = size_t{3} * width_;
    if (png_get_rowbytes(png_, info_) != stride) png_error(png_, "its pixels have no known layout");
    for (int pass = 0; pass < passes; ++pass) {
      for (uint32_t y = 0; y < height_; ++y) png_read_row(png_, out + y * stride, nullptr);
    }
    return true;
  }

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(decoder->message_, message, sizeof decoder->message_ - 1);
    std::longjmp(decoder->jump_, 1);
  }
  static void ignore(png_structp, png_const_charp) {}
  static void read(png_structp png, png_bytep out, size_t size) {
    auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (size > decoder->rest_.size()) png_error(png, "the file ends early");
    std::memcpy(out, decoder->rest_.data(), size);
    decoder->rest_ = decoder->rest_.subspan(size);
  }

  std::span<const std::byte> rest_;  // not read yet
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  uint32_t width_ = 0;
  uint32_t height_ = 0;
  std::jmp_buf jump_ = {};
  char message_[128] = {};
};

}  // namespace

Result<RgbImage> decode_png(std::span<const std::byte> file, const std::string& name,
                            const ImageLimits& limits) {
  PngDecoder decoder(file);
  if (!decoder.read_header()) return damaged_image(name, decoder.message());
  PHIDIAS_CHECK_OK(check_image_size(decoder.width(), decoder.height(), name, limits));
  RgbImage image(decoder.width(), decoder.height());
  if (!decoder.read_pixels(image.bytes.data())) return damaged_image(name, decoder.message());
  return image;
}

}  // namespace phidias
