// Named tensors to a safetensors file, for whoever wants to keep numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phidias/status.h"

namespace phidias {

enum class TensorType : uint8_t { kF32, kI64 };

// Numbers with a shape, outermost axis first, dense. One of the two vectors is used.
struct Tensor {
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> shape;
  std::vector<float> floats;
  std::vector<int64_t> integers;

  static Tensor of(std::vector<uint64_t> shape, std::vector<float> values) {
    return {TensorType::kF32, std::move(shape), std::move(values), {}};
  }
  static Tensor of(std::vector<uint64_t> shape, std::vector<int64_t> values) {
    return {TensorType::kI64, std::move(shape), {}, std::move(values)};
  }
  size_t size() const { return type == TensorType::kF32 ? floats.size() : integers.size(); }
  const void* data() const {
    return type == TensorType::kF32 ? static_cast<const void*>(floats.data()) : integers.data();
  }
  bool operator==(const Tensor&) const = default;
};
using TensorPointer = std::shared_ptr<const Tensor>;

// Of a safetensors file, or of a GGUF file such as one of control vectors; any number format is
// decoded to f32. Errors: those of the readers; kNotFound with the names that are there.
Result<Tensor> load_tensor(const std::filesystem::path& path, const std::string& name);
// All of them, in the file's order.
Result<std::vector<std::pair<std::string, Tensor>>> load_tensors(const std::filesystem::path& path);

struct NamedTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> shape;
  const void* data = nullptr;  // dense, row-major; as many values as the shape says
};

// Written beside `path` and renamed; in place where `path` is not a regular file. Errors: kIo,
// kInvalidArgument.
Status save_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

}  // namespace phidias
