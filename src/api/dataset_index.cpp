#include "api/dataset_index.h"

#include <openssl/evp.h>

#include <memory>

#include "api/model_impl.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/try.h"
#include "phidias/version.h"

namespace phidias {
namespace {

constexpr uint64_t kFormatVersion = 1;

std::string shard_name(size_t number) {
  char name[40];
  std::snprintf(name, sizeof name, "shard-%05zu.safetensors", number);
  return name;
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void add(std::span<const std::byte> bytes) {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", digest[i]);
      text += two;
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// Tells weights apart by the names, sizes and beginnings of their files.
Result<std::string> digest_of_files(const std::vector<std::string>& files) {
  constexpr size_t kBeginning = 1U << 20;
  Sha256 digest;
  for (const std::string& path : files) {
    PHIDIAS_TRY(const auto file, MappedFile::open(path));
    const auto bytes = file->bytes();
    digest.add(std::filesystem::path(path).filename().string() + " " +
               std::to_string(bytes.size()) + " ");
    digest.add(bytes.first(std::min(bytes.size(), kBeginning)));
  }
  return digest.hex();
}

// Of every token's bytes, in order.
Json digest_of_tokenizer(const Model& model) {
  const auto tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return nullptr;
  Sha256 digest;
  for (uint32_t id = 0; id < model.info().vocab_size; ++id) {
    const std::string bytes(tokenizer->token_bytes(static_cast<TokenId>(id)));
    digest.add(std::to_string(bytes.size()) + " ");
    digest.add(bytes);
  }
  return digest.hex();
}

// A folder is gone on with only where all of this is the same.
Result<Json> description(Engine& engine, const std::vector<std::vector<TokenId>>& sequences,
                         const CollectOptions& options) {
  PHIDIAS_TRY(const std::string edits, to_json(options.edits));
  PHIDIAS_TRY(const Json edit_list, parse_json(edits));
  const ModelInfo& info = engine.model().info();
  PHIDIAS_TRY(const std::string weights, digest_of_files(info.files));
  Json reads = Json::array();
  for (const Read& read : options.reads) reads.push_back(read.value.to_string());
  Sha256 data;
  constexpr TokenId kEnd = -1;
  for (const auto& sequence : sequences) {
    data.add(std::as_bytes(std::span(sequence)));
    data.add(std::as_bytes(std::span(&kEnd, 1)));
  }
  Json types = Json::array();
  for (const auto& [type, bytes] : info.weight_types) types.push_back({type, bytes});
  Json shuffle;
  if (options.shuffle_tokens > 0)
    shuffle = {{"tokens", options.shuffle_tokens}, {"seed", options.shuffle_seed}};
  return Json{{"format", kFormatVersion},
              {"engine", PHIDIAS_VERSION},
              {"model", info.path},
              {"model_type", info.type},
              {"weights", weights},
              {"weight_types", types},
              {"tokenizer", digest_of_tokenizer(engine.model())},
              {"numerics", name_of(engine.options().numerics)},
              {"isa", engine.options().isa},
              {"kv", engine.options().kv},
              {"rope_switch", name_of(RopeSwitch::kReprefill)},
              {"reads", reads},
              {"edits", edit_list},
              {"dtype", options.dtype},
              {"loss", options.loss},
              {"shuffle", shuffle},
              {"shard_tokens", options.shard_tokens},
              {"sequences", sequences.size()},
              {"data_sha256", data.hex()}};
}

}  // namespace

Result<DatasetIndex> DatasetIndex::open(Engine& engine,
                                        const std::vector<std::vector<TokenId>>& sequences,
                                        const std::filesystem::path& folder,
                                        const CollectOptions& options) {
  DatasetIndex index;
  index.folder_ = folder;
  PHIDIAS_TRY(index.json_, description(engine, sequences, options));
  const std::filesystem::path path = folder / "index.json";
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) {
    std::filesystem::create_directories(folder, failed);
    if (failed) return Error{Code::kIo, failed.message(), {folder.string(), {}, {}}};
    index.json_["shards"] = Json::array();
    index.json_["complete"] = false;
    PHIDIAS_CHECK_OK(index.save());
    return index;
  }
  if (!options.resume) {
    return Error{Code::kInvalidArgument,
                 "holds a collection already; resume it or name another",
                 {folder.string(), {}, {}}};
  }
  PHIDIAS_TRY(const std::string text, read_text_file(path));
  PHIDIAS_TRY(const Json found, parse_json(text, path.string()));
  for (const auto& [key, value] : index.json_.items()) {
    if (!found.contains(key) || found[key] != value) {
      return Error{Code::kInvalidArgument,
                   "was made of something else: \"" + key + "\" differs",
                   {path.string(), {}, "/" + key}};
    }
  }
  index.json_["shards"] = Json::array();
  index.json_["complete"] = false;
  if (!found.contains("shards") || !found["shards"].is_array()) return index;
  for (const Json& shard : found["shards"]) {
    const auto file = folder / shard_name(index.shards());
    const uint64_t size = std::filesystem::file_size(file, failed);
    if (failed || !shard.is_object() || !shard.contains("bytes") || shard["bytes"] != size) break;
    index.bytes_ += size;
    index.json_["shards"].push_back(shard);
  }
  return index;
}

Status DatasetIndex::add_shard(std::vector<SafetensorsData> tensors, uint64_t tokens) {
  const std::string name = shard_name(shards());
  PHIDIAS_CHECK_OK(write_safetensors(folder_ / name, std::move(tensors)));
  PHIDIAS_TRY(const auto written, MappedFile::open(folder_ / name));
  Sha256 digest;
  digest.add(written->bytes());
  bytes_ += written->bytes().size();
  json_["shards"].push_back({{"file", name},
                             {"tokens", tokens},
                             {"bytes", written->bytes().size()},
                             {"sha256", digest.hex()}});
  return save();
}

Status DatasetIndex::finish() {
  json_["complete"] = true;
  return save();
}

Status DatasetIndex::save() const {
  PHIDIAS_TRY(OutputFile file, OutputFile::create(folder_ / "index.json"));
  PHIDIAS_CHECK_OK(file.write(dump_json(json_, 1) + "\n"));
  return file.commit();
}

}  // namespace phidias
