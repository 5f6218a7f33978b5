// A checkpoint as a Hugging Face folder.
#include <unistd.h>

#include <chrono>

#include "api/convert_write.h"
#include "api/hf_config.h"
#include "api/model_files.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/try.h"
#include "formats/carried_files.h"
#include "formats/safetensors_writer.h"
#include "model/registry.h"
#include "phidias/convert.h"
#include "text/hf_tokenizer_writer.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

Status write_text(const fs::path& path, std::string_view text) {
  PHIDIAS_TRY(OutputFile file, OutputFile::create(path));
  PHIDIAS_CHECK_OK(file.write(text));
  return file.commit();
}

// A folder that is filled beside its place and renamed when it is whole.
class NewFolder {
 public:
  static Result<NewFolder> create(const fs::path& target) {
    std::error_code failure;
    if (fs::exists(target, failure) &&
        !(fs::is_directory(target, failure) && fs::is_empty(target, failure))) {
      return Error{Code::kInvalidArgument,
                   "exists and is not empty; name a folder that can be created",
                   {target.string(), {}, {}}};
    }
    NewFolder folder;
    folder.target_ = fs::absolute(target).lexically_normal();
    if (!folder.target_.has_filename()) folder.target_ = folder.target_.parent_path();
    folder.filling_ = folder.target_;
    folder.filling_ += ".partial-" + std::to_string(::getpid());
    if (!fs::create_directories(folder.filling_, failure)) {
      return Error{
          Code::kIo, "cannot be created: " + failure.message(), {folder.filling_.string(), {}, {}}};
    }
    return folder;
  }
  NewFolder(NewFolder&& other) noexcept
      : target_(std::move(other.target_)), filling_(std::exchange(other.filling_, {})) {}
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!filling_.empty()) fs::remove_all(filling_, ignored);
  }

  fs::path file(std::string_view name) const { return filling_ / name; }
  Status commit() {
    std::error_code failure;
    fs::remove(target_, failure);  // an empty one
    fs::rename(filling_, target_, failure);
    if (failure) {
      return Error{
          Code::kIo, "cannot be put in place: " + failure.message(), {target_.string(), {}, {}}};
    }
    filling_.clear();
    return {};
  }

 private:
  NewFolder() = default;
  fs::path target_;
  fs::path filling_;
};

// Tensors [begin, end) of the plan that one file holds.
struct Shard {
  size_t begin, end;
  std::string name;
};

std::vector<Shard> shards_of(const ConversionPlan& plan, uint64_t limit) {
  std::vector<Shard> shards;
  uint64_t size = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (shards.empty() || (size > 0 && size + plan[i].bytes() > limit)) {
      shards.push_back({i, i, {}});
      size = 0;
    }
    size += plan[i].bytes();
    shards.back().end = i + 1;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    char name[64] = "model.safetensors";
    if (shards.size() > 1) {
      std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    }
    shards[i].name = name;
  }
  return shards;
}

std::string index_json(const ConversionPlan& plan, const std::vector<Shard>& shards) {
  Json map = Json::object();
  uint64_t total = 0;
  for (const Shard& shard : shards) {
    for (size_t i = shard.begin; i < shard.end; ++i) {
      map[plan[i].name] = shard.name;
      total += plan[i].bytes();
    }
  }
  return dump_json({{"metadata", {{"total_size", total}}}, {"weight_map", map}}, 2) + "\n";
}

Status write_weights(const NewFolder& folder, const ConversionPlan& plan,
                     const std::vector<Shard>& shards, const ExportOptions& options) {
  ThreadPool threads(options.threads == 0 ? usable_cores() : options.threads);
  uint64_t total = 0;
  for (const PlannedTensor& tensor : plan) total += tensor.bytes();
  uint64_t before = 0;  // bytes of the shards that are done
  for (const Shard& shard : shards) {
    SafetensorsHeader header;
    header.metadata["format"] = "pt";
    ConversionPlan part(plan.begin() + static_cast<std::ptrdiff_t>(shard.begin),
                        plan.begin() + static_cast<std::ptrdiff_t>(shard.end));
    uint64_t size = 0;
    for (const PlannedTensor& tensor : part) {
      header.tensors.push_back(
          {tensor.name, std::string(format_row(tensor.format).safetensors), tensor.shape});
      size += tensor.bytes();
    }
    PHIDIAS_TRY(SafetensorsWriter writer,
                SafetensorsWriter::create(folder.file(shard.name), header));
    const auto progress = [&](const ConversionProgress& at) {
      return !options.progress || options.progress({at.tensor, before + at.done, total});
    };
    PHIDIAS_CHECK_OK(
        write_plan(part, threads, nullptr, nullptr, progress,
                   [&](std::span<const std::byte> bytes) { return writer.write(bytes); }));
    PHIDIAS_CHECK_OK(writer.commit());
    before += size;
  }
  if (shards.size() > 1)
    return write_text(folder.file("model.safetensors.index.json"), index_json(plan, shards));
  return {};
}

// The folder's own small files, or those that the GGUF file carries.
Result<std::optional<std::string>> carried(const ModelFiles& files, std::string_view name) {
  if (files.checkpoint.gguf) return files.checkpoint.gguf->optional_string(carried_file_key(name));
  std::error_code ignored;
  const fs::path path = files.path / name;
  if (!fs::is_regular_file(path, ignored)) return std::optional<std::string>();
  PHIDIAS_TRY(std::string text, read_text_file(path, 512U << 20));
  return std::optional<std::string>(std::move(text));
}

Status write_small_files(const NewFolder& folder, const ModelFiles& files,
                         const ExportOptions& options) {
  bool has_tokenizer = false;
  std::optional<std::string> config;
  for (const std::string_view name : carried_file_names()) {
    PHIDIAS_TRY(auto text, carried(files, name));
    if (!text) continue;
    if (name == "config.json") {
      config = std::move(text);
      continue;
    }
    if (name == "tokenizer.json") has_tokenizer = true;
    PHIDIAS_CHECK_OK(write_text(folder.file(name), *text));
  }
  PHIDIAS_TRY(const auto tokenizer, load_tokenizer_for(files));
  PHIDIAS_TRY(const std::string json,
              config ? config_with_type(*config, options.type)
                     : config_from_spec(files.spec, tokenizer.get(), options.type));
  PHIDIAS_CHECK_OK(write_text(folder.file("config.json"), json));
  if (!config) {
    PHIDIAS_CHECK_OK(
        write_text(folder.file("generation_config.json"),
                   generation_config(files.spec, stop_ids_of(files, tokenizer.get()))));
  }
  if (has_tokenizer || !tokenizer || !files.checkpoint.gguf) return {};
  PHIDIAS_TRY(const HfTokenizerFiles made,
              hf_tokenizer_files(*files.checkpoint.gguf, *tokenizer, files.spec.max_context));
  PHIDIAS_CHECK_OK(write_text(folder.file("tokenizer.json"), made.tokenizer_json));
  return write_text(folder.file("tokenizer_config.json"), made.tokenizer_config_json);
}

}  // namespace

Result<ConversionReport> export_folder(const fs::path& model, const fs::path& folder,
                                       const ExportOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto format = format_from_name(options.type);
  if (!format || format_row(*format).safetensors.empty()) {
    return Error{Code::kInvalidArgument,
                 "\"" + options.type + "\" is no type of such a folder; choose bf16, f16 or f32",
                 {{}, {}, "type"}};
  }
  PHIDIAS_TRY(const ModelFiles files, open_model_files(model));
  if (!files.has_weights())
    return Error{Code::kNotFound, "has no weights to export", {model.string(), {}, {}}};
  PHIDIAS_TRY(const ModelWeights weights,
              bind_weights(files.spec, *files.names, files.checkpoint.tensors));
  PHIDIAS_TRY(ConversionPlan plan, has_gguf_layout(files.spec.type)
                                       ? plan_folder(files.spec, weights)
                                       : plan_copy(files.checkpoint.tensors.tensors, *files.names));
  for (PlannedTensor& tensor : plan) tensor.format = *format;

  PHIDIAS_TRY(NewFolder target, NewFolder::create(folder));
  PHIDIAS_CHECK_OK(write_small_files(target, files, options));
  PHIDIAS_CHECK_OK(write_weights(target, plan, shards_of(plan, options.shard_bytes), options));
  PHIDIAS_CHECK_OK(target.commit());
  ConversionReport report = describe_plan(plan);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace phidias
