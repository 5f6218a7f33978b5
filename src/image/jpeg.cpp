// libjpeg reports errors by a call that must not return. It jumps back into the function that
// called the library; these functions own nothing that would have to be destroyed.
#include <csetjmp>
#include <cstdio>

// <jpeglib.h> needs <cstdio>, and what <jerror.h> numbers depends on <jpeglib.h>.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "base/try.h"
#include "image/codecs.h"

namespace phidias {
namespace {

// A progressive file may hold any number of scans, each as dear as the whole image.
constexpr int kMaxScans = 100;

class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = fail;
    errors_.base.emit_message = notice;
    progress_.progress_monitor = watch;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  const jpeg_decompress_struct& info() const { return info_; }
  const char* message() const { return errors_.message; }

  // Each returns false on an error, with message() set.
  bool read_header(std::span<const std::byte> file) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info_, TRUE);
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    return true;
  }
  // Into rows of `stride` bytes.
  bool read_pixels(uint8_t* out, size_t stride) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = out + info_.output_scanline * stride;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    return true;
  }

 private:
  struct Errors {
    jpeg_error_mgr base;  // first: the library knows the address of this part
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX] = {};
  };

  [[noreturn]] static void fail(j_common_ptr info) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    errors->base.format_message(info, errors->message);
    std::longjmp(errors->jump, 1);
  }
  // Warnings (level -1) that mean lost data are errors here: the library would go on with grey.
  static void notice(j_common_ptr info, int level) {
    if (level >= 0) return;
    switch (info->err->msg_code) {
      case JWRN_JPEG_EOF:
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_MUST_RESYNC:
      case JWRN_ARITH_BAD_CODE:
      case JWRN_BOGUS_PROGRESSION:
        fail(info);
      default:
        break;
    }
  }
  static void watch(j_common_ptr info) {
    if (!info->is_decompressor) return;
    const auto* decompressor = reinterpret_cast<j_decompress_ptr>(info);
    if (decompressor->input_scan_number <= kMaxScans) return;
    auto* errors = reinterpret_cast<Errors*>(info->err);
    std::snprintf(errors->message, sizeof errors->message, "it has more than %d scans", kMaxScans);
    std::longjmp(errors->jump, 1);
  }

  jpeg_decompress_struct info_ = {};
  jpeg_progress_mgr progress_ = {};
  Errors errors_ = {};
};

// Inks to light as Pillow does it: Adobe's files, practically all there are, store what is left of
// the white.
void inks_to_rgb(const uint8_t* inks, uint8_t* out, size_t pixels) {
  for (size_t i = 0; i < pixels; ++i, inks += 4, out += 3) {
    const uint32_t light = inks[3];
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t product = (255U - inks[c]) * light + 128U;
      out[c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

}  // namespace

Result<RgbImage> decode_jpeg(std::span<const std::byte> file, const std::string& name,
                             const ImageLimits& limits) {
  JpegDecoder decoder;
  if (!decoder.read_header(file)) return damaged_image(name, decoder.message());
  const uint32_t width = decoder.info().image_width;
  const uint32_t height = decoder.info().image_height;
  PHIDIAS_CHECK_OK(check_image_size(width, height, name, limits));
  RgbImage image(width, height);
  if (decoder.info().out_color_space == JCS_RGB) {
    if (!decoder.read_pixels(image.bytes.data(), image.stride()))
      return damaged_image(name, decoder.message());
    return image;
  }
  std::vector<uint8_t> inks(size_t{4} * width * height);
  if (!decoder.read_pixels(inks.data(), size_t{4} * width))
    return damaged_image(name, decoder.message());
  inks_to_rgb(inks.data(), image.bytes.data(), size_t{width} * height);
  return image;
}

}  // namespace phidias
