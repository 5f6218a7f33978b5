#include "formats/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>

#include "base/try.h"
#include "formats/gguf_types.h"
#include "formats/safetensors.h"
#include "formats/safetensors_index.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

// Regular files of a folder, sorted, so that errors do not depend on the file system's order.
Result<std::set<std::string>> files_of(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code failure;
  fs::directory_iterator at(folder, failure);
  for (; !failure && at != fs::directory_iterator(); at.increment(failure)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) names.insert(at->path().filename().string());
  }
  if (failure) {
    return Error{
        Code::kIo, "cannot list the folder: " + failure.message(), {folder.string(), {}, {}}};
  }
  return names;
}

// "model-00002-of-00003.safetensors": the names that shards are given.
bool is_shard_name(std::string_view name) {
  return name.starts_with("model-") && name.ends_with(".safetensors") &&
         name.find("-of-") != std::string_view::npos;
}

void append_shard(SafetensorsFile shard, const fs::path& path, TensorSet& set) {
  const auto file = static_cast<uint32_t>(set.files.size());
  set.files.push_back(path.string());
  set.mappings.push_back(std::move(shard.file));
  for (TensorEntry& entry : shard.tensors) {
    entry.file = file;
    set.tensors.push_back(std::move(entry));
  }
  for (const SafetensorsFile::Ignored& tensor : shard.ignored) {
    set.ignored.push_back(fmt::format("{} ({})", tensor.name, tensor.dtype));
  }
}

// Every tensor of the shard is one that the index places there; `unseen` loses those that were
// found.
Status check_shard(const SafetensorsFile& shard, const std::string& shard_name,
                   const fs::path& path, const SafetensorsIndex& index,
                   std::set<std::string_view>& unseen) {
  const auto check = [&](const std::string& tensor) -> Status {
    const auto at = index.weight_map.find(tensor);
    if (at != index.weight_map.end() && at->second == shard_name) {
      unseen.erase(at->first);
      return {};
    }
    return Error{
        Code::kCorrupt,
        at == index.weight_map.end()
            ? fmt::format("lies in {}, but the index does not list it", shard_name)
            : fmt::format("lies in {}, but the index places it in {}", shard_name, at->second),
        {path.string(), {}, tensor}};
  };
  for (const TensorEntry& entry : shard.tensors) PHIDIAS_CHECK_OK(check(entry.name));
  for (const auto& tensor : shard.ignored) PHIDIAS_CHECK_OK(check(tensor.name));
  return {};
}

Result<TensorSet> open_shards(const fs::path& folder, const std::set<std::string>& names) {
  const fs::path index_path = folder / kIndexFile;
  PHIDIAS_TRY(const SafetensorsIndex index, SafetensorsIndex::open(index_path));
  for (const std::string& shard : index.shards) {
    if (names.contains(shard)) continue;
    return Error{Code::kNotFound,
                 fmt::format("names the shard {}, which is missing from the folder", shard),
                 {index_path.string(), {}, {}}};
  }
  for (const std::string& name : names) {
    if (!is_shard_name(name) || index.shards.contains(name)) continue;
    return Error{
        Code::kCorrupt,
        fmt::format("does not name the shard {}, which lies in the folder; the files are of "
                    "different downloads",
                    name),
        {index_path.string(), {}, {}}};
  }
  TensorSet set;
  std::set<std::string_view> unseen;
  for (const auto& [tensor, shard] : index.weight_map) unseen.insert(tensor);
  for (const std::string& name : index.shards) {
    const fs::path path = folder / name;
    PHIDIAS_TRY(SafetensorsFile shard, SafetensorsFile::open(path));
    PHIDIAS_CHECK_OK(check_shard(shard, name, path, index, unseen));
    append_shard(std::move(shard), path, set);
  }
  if (!unseen.empty()) {
    const std::string tensor(*unseen.begin());
    return Error{
        Code::kCorrupt,
        fmt::format("should lie in {}, which does not have it", index.weight_map.at(tensor)),
        {index_path.string(), {}, tensor}};
  }
  return set;
}

// What a folder without weights holds instead, for the error.
std::string advice_for(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    if (name.ends_with(".gguf")) return fmt::format("; it holds {}: give that file itself", name);
  }
  for (const std::string& name : names) {
    if (name.starts_with("pytorch_model") && name.ends_with(".bin")) {
      return fmt::format(
          "; it holds {}: PyTorch's own files are not read, convert them to safetensors", name);
    }
  }
  return {};
}

Result<TensorSet> open_folder(const fs::path& folder) {
  PHIDIAS_TRY(const auto names, files_of(folder));
  // The order of transformers, should a folder hold both.
  if (names.contains(std::string(kSingleFile))) {
    const fs::path path = folder / kSingleFile;
    PHIDIAS_TRY(SafetensorsFile file, SafetensorsFile::open(path));
    TensorSet set;
    append_shard(std::move(file), path, set);
    return set;
  }
  if (names.contains(std::string(kIndexFile))) return open_shards(folder, names);
  return Error{Code::kNotFound,
               fmt::format("holds neither {} nor {}{}", kSingleFile, kIndexFile, advice_for(names)),
               {folder.string(), {}, {}}};
}

Result<Checkpoint> open_gguf(const fs::path& path) {
  PHIDIAS_TRY(GgufFile file, GgufFile::open(path));
  PHIDIAS_TRY(const auto parts, file.optional_unsigned("split.count"));
  if (parts.value_or(0) > 1) {
    return Error{
        Code::kUnsupported,
        fmt::format("is one of {} parts of a split GGUF; merge them first (llama-gguf-split "
                    "--merge)",
                    *parts),
        {path.string(), {}, "split.count"}};
  }
  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.tensors.files.push_back(path.string());
  checkpoint.tensors.mappings.push_back(file.file);
  checkpoint.tensors.tensors = file.tensors;
  checkpoint.gguf = std::make_shared<const GgufFile>(std::move(file));
  return checkpoint;
}

Result<bool> is_gguf(const fs::path& path) {
  if (path.extension() == ".gguf") return true;
  PHIDIAS_TRY(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  return bytes.size() >= sizeof(kGgufMagic) &&
         std::memcmp(bytes.data(), kGgufMagic, sizeof(kGgufMagic)) == 0;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (status.type() == fs::file_type::not_found) {
    return Error{Code::kNotFound, "does not exist", {path.string(), {}, {}}};
  }
  if (fs::is_directory(status)) {
    Checkpoint checkpoint;
    checkpoint.path = path;
    PHIDIAS_TRY(checkpoint.tensors, open_folder(path));
    return checkpoint;
  }
  PHIDIAS_TRY(const bool gguf, is_gguf(path));
  if (gguf) return open_gguf(path);
  return Error{Code::kUnsupported,
               path.extension() == ".safetensors"
                   ? "give the folder of this file: the configuration lies beside it"
                   : "is neither a folder with safetensors files nor a GGUF file",
               {path.string(), {}, {}}};
}

}  // namespace phidias
