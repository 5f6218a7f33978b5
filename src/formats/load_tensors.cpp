#include "base/mapped_file.h"
#include "base/try.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "phidias/tensors.h"

namespace phidias {
namespace {

struct Opened {
  std::shared_ptr<const MappedFile> file;
  std::vector<TensorEntry> tensors;
};

Result<Opened> open_tensors(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") {
    PHIDIAS_TRY(GgufFile gguf, GgufFile::open(path));
    return Opened{gguf.file, std::move(gguf.tensors)};
  }
  PHIDIAS_TRY(SafetensorsFile safetensors, SafetensorsFile::open(path));
  return Opened{safetensors.file, std::move(safetensors.tensors)};
}

Tensor decode(const TensorEntry& entry) {
  size_t count = 1;
  for (const uint64_t extent : entry.shape) count *= extent;
  std::vector<float> values(count);
  format_row(entry.format).decode(entry.data, values.data(), count);
  return Tensor::of(entry.shape, std::move(values));
}

}  // namespace

Result<Tensor> load_tensor(const std::filesystem::path& path, const std::string& name) {
  PHIDIAS_TRY(const Opened opened, open_tensors(path));
  std::string names;
  for (const TensorEntry& entry : opened.tensors) {
    if (entry.name == name) return decode(entry);
    if (names.size() < 200) names += (names.empty() ? "" : ", ") + entry.name;
  }
  return Error{Code::kNotFound,
               "is not in the file; it has " + (names.empty() ? "none" : names),
               {path.string(), {}, name}};
}

Result<std::vector<std::pair<std::string, Tensor>>> load_tensors(
    const std::filesystem::path& path) {
  PHIDIAS_TRY(const Opened opened, open_tensors(path));
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const TensorEntry& entry : opened.tensors) tensors.emplace_back(entry.name, decode(entry));
  return tensors;
}

}  // namespace phidias
