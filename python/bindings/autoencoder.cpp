// Sparse autoencoders: their tensors, and edits of their features.
#include "phidias/autoencoder.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "live.h"

namespace phidias::python {
namespace {

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

Autoencoder made_of(const FloatArray& encoder, const FloatArray& encoder_bias,
                    const FloatArray& decoder, const FloatArray& decoder_bias, bool centred) {
  Autoencoder autoencoder{tensor_from(encoder), tensor_from(encoder_bias), tensor_from(decoder),
                          tensor_from(decoder_bias), centred};
  unwrap(autoencoder.check());
  return autoencoder;
}

// A view of a tensor, read-only, that keeps its autoencoder alive.
template <Tensor Autoencoder::*kTensor>
nb::ndarray<nb::numpy, const float> view_of(const AutoencoderPointer& self) {
  const Tensor& tensor = (*self).*kTensor;
  const std::vector<size_t> shape(tensor.shape.begin(), tensor.shape.end());
  auto owner = std::make_unique<AutoencoderPointer>(self);
  nb::capsule capsule(owner.get(), [](void* pointer) noexcept {
    const std::unique_ptr<AutoencoderPointer> owned(static_cast<AutoencoderPointer*>(pointer));
  });
  owner.release();  // NOLINT(bugprone-unused-return-value): the capsule has it
  return nb::ndarray<nb::numpy, const float>(tensor.floats.data(), shape.size(), shape.data(),
                                             capsule);
}

FeatureEdit::Kind kind_of(const std::string& name) {
  if (name == "set") return FeatureEdit::Kind::kSet;
  if (name == "add") return FeatureEdit::Kind::kAdd;
  if (name == "scale") return FeatureEdit::Kind::kScale;
  throw nb::value_error("a feature is 'set', 'add' or 'scale'");
}

using FeatureEdits = std::vector<std::tuple<uint32_t, std::string, double>>;

Edit edit_of(const ValueRef& value, const AutoencoderPointer& autoencoder,
             const FeatureEdits& features, bool keep_error) {
  std::vector<FeatureEdit> edits;
  for (const auto& [feature, kind, number] : features)
    edits.push_back({feature, kind_of(kind), number});
  return edit_sae(value, autoencoder, std::move(edits), keep_error);
}

}  // namespace

void bind_autoencoder(nb::module_& module) {
  nb::class_<Autoencoder>(module, "Autoencoder",
                          "A sparse autoencoder of vectors [n] with f features. Immutable.")
      .def(
          "__init__",
          [](Autoencoder* self, const FloatArray& encoder, const FloatArray& encoder_bias,
             const FloatArray& decoder, const FloatArray& decoder_bias, bool centred) {
            new (self) Autoencoder(made_of(encoder, encoder_bias, decoder, decoder_bias, centred));
          },
          nb::arg("encoder"), nb::arg("encoder_bias"), nb::arg("decoder"), nb::arg("decoder_bias"),
          nb::kw_only(), nb::arg("centred") = false,
          nb::sig("def __init__(self, encoder: numpy.typing.NDArray[numpy.float32], encoder_bias: "
                  "numpy.typing.NDArray[numpy.float32], decoder: "
                  "numpy.typing.NDArray[numpy.float32], decoder_bias: "
                  "numpy.typing.NDArray[numpy.float32], *, centred: bool = False) -> None"),
          "Of encoder [f, n], encoder_bias [f], decoder [f, n], decoder_bias [n].")
      .def_static(
          "load",
          [](const std::filesystem::path& path, bool centred) {
            return std::make_shared<Autoencoder>(unwrap(load_autoencoder(path, centred)));
          },
          nb::arg("path"), nb::kw_only(), nb::arg("centred") = false,
          nb::sig("def load(path: str | os.PathLike[str], *, centred: bool = False) -> "
                  "Autoencoder"),
          "A safetensors file with W_enc [n, f], b_enc, W_dec [f, n], b_dec.")
      .def_prop_ro("encoder", &view_of<&Autoencoder::encoder>, nb::rv_policy::automatic,
                   nb::sig("def encoder(self) -> numpy.typing.NDArray[numpy.float32]"),
                   "[f, n]. Read-only.")
      .def_prop_ro("encoder_bias", &view_of<&Autoencoder::encoder_bias>, nb::rv_policy::automatic,
                   nb::sig("def encoder_bias(self) -> numpy.typing.NDArray[numpy.float32]"),
                   "[f]. Read-only.")
      .def_prop_ro("decoder", &view_of<&Autoencoder::decoder>, nb::rv_policy::automatic,
                   nb::sig("def decoder(self) -> numpy.typing.NDArray[numpy.float32]"),
                   "[f, n]. Read-only.")
      .def_prop_ro("decoder_bias", &view_of<&Autoencoder::decoder_bias>, nb::rv_policy::automatic,
                   nb::sig("def decoder_bias(self) -> numpy.typing.NDArray[numpy.float32]"),
                   "[n]. Read-only.")
      .def_ro("centred", &Autoencoder::centred,
              "Whether decoder_bias is taken off before a vector is encoded.");
  module.def("edit_sae", &edit_of, nb::arg("value"), nb::arg("autoencoder"), nb::arg("features"),
             nb::kw_only(), nb::arg("keep_error") = true,
             "Features as (number, 'set' or 'add' or 'scale', by what), on whole vectors of a "
             "value; with keep_error what the autoencoder does not see of them stays.");
}

}  // namespace phidias::python
