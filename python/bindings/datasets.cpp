// Activation datasets: written by the library, as the command does it. They are read in Python.
#include "phidias/dataset.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "shared_engine.h"

namespace phidias::python {
namespace {

CollectOptions options_of(const std::vector<ValueRef>& reads, const std::string& dtype, bool loss) {
  CollectOptions options;
  for (const ValueRef& value : reads) options.reads.push_back({value});
  options.dtype = dtype;
  options.loss = loss;
  return options;
}

// Bits of bf16 as a tensor of that type, which numpy does not have; the memory is the array's.
nb::ndarray<> bf16_tensor(const nb::ndarray<const uint16_t, nb::c_contig, nb::device::cpu>& bits) {
  std::vector<size_t> shape;
  for (size_t axis = 0; axis < bits.ndim(); ++axis) shape.push_back(bits.shape(axis));
  auto owner = std::make_unique<nb::object>(nb::cast(bits));
  nb::capsule capsule(owner.get(), [](void* pointer) noexcept {
    const std::unique_ptr<nb::object> owned(static_cast<nb::object*>(pointer));
  });
  owner.release();  // NOLINT(bugprone-unused-return-value): the capsule has it
  const nb::dlpack::dtype type{static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
  return nb::ndarray<>(const_cast<uint16_t*>(bits.data()), shape.size(), shape.data(), capsule,
                       nullptr, type);
}

}  // namespace

void bind_datasets(nb::module_& module) {
  module.def(
      "collect",
      [](SharedEngine& shared, const std::vector<std::vector<TokenId>>& sequences,
         const std::string& folder, const std::vector<ValueRef>& reads,
         const std::vector<Edit>& edits, const std::string& dtype, bool loss, uint64_t shard_tokens,
         uint64_t shuffle_tokens, uint64_t shuffle_seed, bool resume,
         const ProgressFunction& progress) {
        CollectOptions options = options_of(reads, dtype, loss);
        for (const Edit& edit : edits) options.edits += edit;
        options.shard_tokens = shard_tokens;
        options.shuffle_tokens = shuffle_tokens;
        options.shuffle_seed = shuffle_seed;
        options.resume = resume;
        Progress told(progress);
        options.progress = [&](uint64_t done, uint64_t total) { return told(done, total); };
        shared.work(told,
                    [&](Engine& engine) { return collect(engine, sequences, folder, options); });
      },
      nb::arg("engine"), nb::arg("sequences"), nb::arg("folder"), nb::arg("reads"), nb::kw_only(),
      nb::arg("edits") = std::vector<Edit>(), nb::arg("dtype") = "bf16", nb::arg("loss") = false,
      nb::arg("shard_tokens") = 65536, nb::arg("shuffle_tokens") = 0, nb::arg("shuffle_seed") = 0,
      nb::arg("resume") = false, nb::arg("progress").none() = nb::none(),
      "Writes a dataset of the values of all tokens.");
  module.def("bf16_tensor", &bf16_tensor, nb::arg("bits"),
             nb::sig("def bf16_tensor(bits: numpy.typing.NDArray[numpy.uint16]) -> typing.Any"),
             "Bits of bf16 as what torch.from_dlpack takes for a tensor of that type.");
  module.def(
      "collected_bytes_per_token",
      [](const std::shared_ptr<const Model>& model, const std::vector<ValueRef>& reads,
         const std::string& dtype, bool loss) {
        return unwrap(collected_bytes_per_token(*model, options_of(reads, dtype, loss)));
      },
      nb::arg("model"), nb::arg("reads"), nb::kw_only(), nb::arg("dtype") = "bf16",
      nb::arg("loss") = false);
}

}  // namespace phidias::python
