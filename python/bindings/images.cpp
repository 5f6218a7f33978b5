// Images for the models that see them.
#include "images.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "phidias/image_trace.h"
#include "phidias/prompt.h"
#include "shared_engine.h"

namespace phidias::python {
namespace {

std::span<const std::byte> bytes_of(const nb::bytes& file) {
  return {static_cast<const std::byte*>(file.data()), file.size()};
}

ImageOptions options_of(uint32_t crops, Progress& told) {
  ImageOptions options;
  options.crops = crops;
  options.progress = [&told](size_t done, size_t total) { return told(done, total); };
  return options;
}

Image encode(SharedEngine& engine, const nb::bytes& file, const std::string& name, uint32_t crops,
             const ProgressFunction& progress) {
  Progress told(progress);
  const ImageOptions options = options_of(crops, told);
  return Image{engine.work(
      told, [&](Engine& used) { return encode_image(used, bytes_of(file), name, options); })};
}

nb::tuple trace(SharedEngine& engine, const nb::bytes& file, const std::vector<ValueRef>& reads,
                const std::vector<Edit>& edits, const std::string& name, uint32_t crops,
                const ProgressFunction& progress) {
  Progress told(progress);
  const ImageOptions options = options_of(crops, told);
  std::vector<Read> wanted;
  for (const ValueRef& value : reads) wanted.push_back({value});
  Edits list;
  for (const Edit& edit : edits) list += edit;
  ImageTraced seen = engine.work(told, [&](Engine& used) {
    return trace_image(used, bytes_of(file), name, wanted, list, options);
  });
  return nb::make_tuple(Image{std::move(seen.image)}, std::move(seen.traced));
}

// The features, read-only: they belong to all who show the image.
nb::ndarray<nb::numpy, const float> features(const Image& self) {
  auto owner = std::make_unique<ImageHandle>(self.handle);
  const size_t shape[2] = {self.handle->tokens, self.handle->hidden_size};
  nb::capsule capsule(owner.get(), [](void* pointer) noexcept {
    const std::unique_ptr<ImageHandle> owned(static_cast<ImageHandle*>(pointer));
  });
  owner.release();  // NOLINT(bugprone-unused-return-value): the capsule has it
  return nb::ndarray<nb::numpy, const float>(self.handle->values.data(), 2, shape, capsule);
}

}  // namespace

void bind_images(nb::module_& module) {
  nb::class_<Image>(module, "Image",
                    "What a model sees of an image: a row for each of its tokens. Immutable; of "
                    "any engine of the model that made it.")
      .def_prop_ro(
          "width", [](const Image& self) { return self.handle->width; }, "Pixels.")
      .def_prop_ro(
          "height", [](const Image& self) { return self.handle->height; }, "Pixels.")
      .def_prop_ro(
          "tiles",
          [](const Image& self) { return nb::make_tuple(self.handle->rows, self.handle->columns); },
          nb::sig("def tiles(self) -> tuple[int, int]"), "Rows and columns that it was cut into.")
      .def_prop_ro("tokens", [](const Image& self) { return self.handle->tokens; })
      .def_prop_ro("features", &features, nb::rv_policy::automatic,
                   nb::sig("def features(self) -> numpy.typing.NDArray[numpy.float32]"),
                   "[tokens, hidden_size]: what stands where embeddings would. Read-only.")
      .def("__repr__", [](const Image& self) {
        return "Image(" + std::to_string(self.handle->width) + "x" +
               std::to_string(self.handle->height) + ", " + std::to_string(self.handle->tokens) +
               " tokens)";
      });
  module.def("encode_image", &encode, nb::arg("engine"), nb::arg("file"), nb::kw_only(),
             nb::arg("name") = "", nb::arg("crops") = 0, nb::arg("progress").none() = nb::none(),
             "The bytes of a JPEG, PNG or WebP file through the model's vision tower. "
             "progress(tiles, of) returns False to stop.");
  module.def("trace_image", &trace, nb::arg("engine"), nb::arg("file"), nb::arg("reads"),
             nb::arg("edits"), nb::kw_only(), nb::arg("name") = "", nb::arg("crops") = 0,
             nb::arg("progress").none() = nb::none(),
             nb::sig("def trace_image(engine: Engine, file: bytes, reads: "
                     "collections.abc.Sequence[ValueRef], edits: collections.abc.Sequence[Edit], "
                     "*, name: str = '', crops: int = 0, progress: "
                     "collections.abc.Callable[[int, int], bool] | None = None) -> tuple[Image, "
                     "Traced]"),
             "The same with some of the tower's values kept and some changed.");
  module.def(
      "encode_with_images",
      [](const Tokenizer& tokenizer, const std::string& text, const std::vector<Image>& images,
         const std::optional<std::string>& guard) {
        EncodeOptions options;
        if (guard) options.guard = code_point_of(*guard);
        return unwrap(encode_with_images(tokenizer, text, handles_of(images), options));
      },
      nb::arg("tokenizer"), nb::arg("text"), nb::arg("images"), nb::kw_only(),
      nb::arg("guard").none() = nb::none(),
      "Ids of a text in which the tag <|image_n|> stands for the n-th image, from 1.");
  module.def("image_tag", &image_tag, nb::arg("number"), "The tag of the n-th image, from 1.");
}

}  // namespace phidias::python
