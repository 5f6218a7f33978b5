#include "phidias/image_trace.h"

#include <new>

#include "api/model_impl.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "image/decode.h"
#include "phidias/engine.h"
#include "trace/image_trace.h"

namespace phidias {

Result<ImageTraced> trace_image(Engine& engine, std::span<const std::byte> file,
                                const std::string& name, const std::vector<Read>& reads,
                                const Edits& edits, const ImageOptions& options) {
  PHIDIAS_TRY(ImageTrace trace, ImageTrace::compile(reads, edits, engine.model().impl().spec));
  ImageOptions looked_into = options;
  looked_into.tap = [&](const ImageView& view) {
    if (options.tap) options.tap(view);
    trace.visit(view);
  };
  looked_into.progress = [&](size_t done, size_t total) {
    return trace.status().ok() && (!options.progress || options.progress(done, total));
  };
  auto image = encode_image(engine, file, name, looked_into);
  PHIDIAS_CHECK_OK(trace.status());
  if (!image.ok()) return std::move(image).error();
  return ImageTraced{std::move(*image), std::move(trace).take()};
}

Result<ImageTraced> trace_image_file(Engine& engine, const std::string& path,
                                     const std::vector<Read>& reads, const Edits& edits,
                                     const ImageOptions& options) {
  PHIDIAS_TRY(const std::string file, read_text_file(path, kMaxImageFileBytes));
  return trace_image(engine, std::as_bytes(std::span(file)), path, reads, edits, options);
}

}  // namespace phidias
