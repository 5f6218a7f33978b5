// Named tensors to a safetensors file, for whoever wants to keep numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "phidias/status.h"

namespace phidias {

enum class TensorType : uint8_t { kF32, kI64 };

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
