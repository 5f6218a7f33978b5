#include "trace/json_tensor.h"

#include <filesystem>

#include "base/try.h"

namespace phidias {
namespace {

Error fault(std::string message, const std::string& file, const std::string& path) {
  return {Code::kInvalidArgument, std::move(message), {file, {}, path}};
}

Status collect(const Json& value, size_t depth, Tensor& to, const std::string& file,
               const std::string& path) {
  if (depth == to.shape.size()) {
    if (!value.is_number())
      return fault("a tensor holds numbers in lists of one shape", file, path);
    to.floats.push_back(value.get<float>());
    return {};
  }
  if (!value.is_array() || value.size() != to.shape[depth])
    return fault("a tensor's lists must have one shape", file, path);
  for (const Json& entry : value) PHIDIAS_CHECK_OK(collect(entry, depth + 1, to, file, path));
  return {};
}

Json nested(const Tensor& tensor, size_t axis, size_t& at) {
  if (axis == tensor.shape.size()) return tensor.floats[at++];
  Json list = Json::array();
  for (uint64_t i = 0; i < tensor.shape[axis]; ++i) list.push_back(nested(tensor, axis + 1, at));
  return list;
}

}  // namespace

std::filesystem::path stored_path(const std::string& name, const std::string& document) {
  std::filesystem::path path = name;
  std::error_code ignored;
  if (path.is_relative() && !document.empty() && !std::filesystem::exists(path, ignored))
    path = std::filesystem::path(document).parent_path() / path;
  return path;
}

Result<Tensor> tensor_from_json(const Json& value, TensorFiles files, const std::string& file,
                                const std::string& path) {
  if (value.is_object()) {
    const auto stored = value.find("file");
    const auto name = value.find("name");
    if (stored == value.end() || !stored->is_string() || name == value.end() || !name->is_string())
      return fault("a stored tensor has \"file\" and \"name\"", file, path);
    if (files == TensorFiles::kRefused) return fault("files are not read here", file, path);
    return load_tensor(stored_path(stored->get<std::string>(), file), name->get<std::string>());
  }
  Tensor numbers;
  for (const Json* level = &value; level->is_array(); level = &level->front()) {
    if (level->empty()) return fault("a tensor has an empty list", file, path);
    numbers.shape.push_back(level->size());
  }
  PHIDIAS_CHECK_OK(collect(value, 0, numbers, file, path));
  return numbers;
}

Json tensor_to_json(const Tensor& tensor) {
  size_t at = 0;
  return nested(tensor, 0, at);
}

}  // namespace phidias
