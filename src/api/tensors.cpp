#include "phidias/tensors.h"

#include "formats/safetensors_writer.h"

namespace phidias {

Status save_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsData> data;
  for (const NamedTensor& tensor : tensors) {
    const bool wide = tensor.type == TensorType::kI64;
    size_t count = 1;
    for (const uint64_t extent : tensor.shape) count *= extent;
    data.push_back({{tensor.name, wide ? "I64" : "F32", tensor.shape},
                    {static_cast<const std::byte*>(tensor.data), count * (wide ? 8 : 4)}});
  }
  return write_safetensors(path, std::move(data));
}

}  // namespace phidias
