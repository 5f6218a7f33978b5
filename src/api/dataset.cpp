#include "phidias/dataset.h"

#include <openssl/evp.h>

#include <algorithm>

#include "api/model_impl.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/try.h"
#include "engine/stepper.h"
#include "formats/safetensors_writer.h"
#include "phidias/version.h"
#include "quant/format.h"
#include "trace/edit_program.h"
#include "trace/value_table.h"

namespace phidias {
namespace {

constexpr uint64_t kFormatVersion = 1;

Error invalid(std::string message, std::string item) {
  return {Code::kInvalidArgument, std::move(message), {{}, {}, std::move(item)}};
}

std::string shard_name(size_t number) {
  char name[40];
  std::snprintf(name, sizeof name, "shard-%05zu.safetensors", number);
  return name;
}

std::string sha256(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", digest[i]);
    text += two;
  }
  return text;
}

// Sequences [first, end) of one shard.
struct Share {
  size_t first;
  size_t end;
  uint64_t tokens;
};
std::vector<Share> shares_of(const std::vector<std::vector<TokenId>>& sequences,
                             uint64_t capacity) {
  std::vector<Share> shares;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const uint64_t tokens = sequences[i].size();
    if (shares.empty() || shares.back().tokens + tokens > capacity) shares.push_back({i, i, 0});
    shares.back().end = i + 1;
    shares.back().tokens += tokens;
  }
  return shares;
}

// One value of one layer, with a row of `width` numbers for each token.
struct Column {
  std::string name;
  std::vector<uint64_t> row_shape;
  size_t width;
};
Result<std::vector<Column>> columns_of(const ModelSpec& spec, const CollectOptions& options) {
  std::vector<Column> columns;
  for (const Read& read : options.reads) {
    const ValueInfo& info = info_of(read.value.id);
    const auto axes = axes_of(info.layout);
    const std::string place = read.value.to_string();
    if (axes.size() < 3 || axes[1] != "seq" || is_integer(info.id))
      return invalid("has no row for each position", place);
    if (read.value.selection != Selection())
      return invalid("whole values are collected; leave the selection out", place);
    if (const auto missing = missing_value(info.id, spec))
      return Error{Code::kUnsupported, *missing, {{}, {}, place}};
    PHIDIAS_TRY(const auto layers, resolve_layers(read.value, spec));
    const std::vector<uint64_t> shape = shape_of(info.id, spec, 1);
    Column column{{}, {shape.begin() + 2, shape.end()}, 1};
    for (const uint64_t extent : column.row_shape) column.width *= extent;
    for (const size_t layer : layers) {
      column.name = value_name(info.id, layer);
      columns.push_back(column);
    }
  }
  if (columns.empty()) return invalid("nothing is to be collected", "reads");
  return columns;
}

Result<Format> dtype_format(const std::string& dtype) {
  const auto format = format_from_name(dtype);
  if (!format || (*format != Format::kF32 && *format != Format::kF16 && *format != Format::kBF16))
    return invalid("\"" + dtype + "\" is none of f32, bf16, f16", "dtype");
  return *format;
}

Status write_text(const std::filesystem::path& path, const std::string& text) {
  PHIDIAS_TRY(OutputFile file, OutputFile::create(path));
  PHIDIAS_CHECK_OK(file.write(text));
  return file.commit();
}

class DatasetWriter {
 public:
  DatasetWriter(Engine& engine, const std::vector<std::vector<TokenId>>& sequences,
                std::filesystem::path folder, const CollectOptions& options)
      : engine_(engine), sequences_(sequences), folder_(std::move(folder)), options_(options) {}

  Result<Collection> run() {
    PHIDIAS_TRY(columns_, columns_of(engine_.stepper().spec(), options_));
    PHIDIAS_TRY(format_, dtype_format(options_.dtype));
    if (options_.shard_tokens == 0) return invalid("must be at least 1", "shard_tokens");
    for (const auto& sequence : sequences_) {
      if (sequence.empty()) return invalid("a text has no tokens", "sequences");
      collection_.tokens += sequence.size();
    }
    collection_.sequences = sequences_.size();
    PHIDIAS_CHECK_OK(open_index());
    const auto shares = shares_of(sequences_, options_.shard_tokens);
    collection_.shards = shares.size();
    uint64_t done = 0;
    for (size_t number = 0; number < shares.size(); ++number) {
      if (number < collection_.reused) {
        done += shares[number].tokens;
        continue;
      }
      PHIDIAS_CHECK_OK(write_shard(number, shares[number], done));
    }
    index_["complete"] = true;
    PHIDIAS_CHECK_OK(write_text(folder_ / "index.json", dump_json(index_, 1) + "\n"));
    if (options_.progress) options_.progress(collection_.tokens, collection_.tokens);
    return collection_;
  }

 private:
  // What the shards are made of; a folder is gone on with only where this is the same.
  Result<Json> description() const {
    PHIDIAS_TRY(const std::string edits, to_json(options_.edits));
    PHIDIAS_TRY(const Json edit_list, parse_json(edits));
    const ModelInfo& info = engine_.model().info();
    const EngineOptions& engine = engine_.options();
    Json paths = Json::array();
    for (const Read& read : options_.reads) paths.push_back(read.value.to_string());
    std::vector<TokenId> tokens;
    for (const auto& sequence : sequences_) {
      tokens.insert(tokens.end(), sequence.begin(), sequence.end());
      tokens.push_back(-1);
    }
    Json weights = Json::object();
    for (const auto& [type, bytes] : info.weight_types) weights[type] = bytes;
    return Json{{"format", kFormatVersion},
                {"engine", PHIDIAS_VERSION},
                {"model", info.path},
                {"model_type", info.type},
                {"weights", weights},
                {"numerics", name_of(engine.numerics)},
                {"isa", engine.isa},
                {"kv", engine.kv},
                {"rope_switch", name_of(RopeSwitch::kReprefill)},
                {"read", paths},
                {"edits", edit_list},
                {"dtype", options_.dtype},
                {"shard_tokens", options_.shard_tokens},
                {"sequences", sequences_.size()},
                {"data_sha256", sha256(std::as_bytes(std::span(tokens)))}};
  }

  Status open_index() {
    PHIDIAS_TRY(index_, description());
    const std::filesystem::path path = folder_ / "index.json";
    std::error_code failed;
    if (std::filesystem::exists(path, failed)) {
      if (!options_.resume) {
        return Error{Code::kInvalidArgument,
                     "holds a collection already; resume it or name another",
                     {folder_.string(), {}, {}}};
      }
      PHIDIAS_TRY(const std::string text, read_text_file(path));
      PHIDIAS_TRY(const Json found, parse_json(text, path.string()));
      for (const auto& [key, value] : index_.items()) {
        if (!found.contains(key) || found[key] != value) {
          return Error{Code::kInvalidArgument,
                       "was made of something else: \"" + key + "\" differs",
                       {path.string(), {}, "/" + key}};
        }
      }
      index_["shards"] = Json::array();
      if (found.contains("shards") && found["shards"].is_array()) {
        for (const Json& shard : found["shards"]) {
          const auto file = folder_ / shard_name(index_["shards"].size());
          if (!std::filesystem::exists(file, failed)) break;
          collection_.bytes += std::filesystem::file_size(file, failed);
          index_["shards"].push_back(shard);
        }
      }
      collection_.reused = index_["shards"].size();
      return {};
    }
    std::filesystem::create_directories(folder_, failed);
    if (failed) return Error{Code::kIo, failed.message(), {folder_.string(), {}, {}}};
    index_["shards"] = Json::array();
    index_["complete"] = false;
    return write_text(path, dump_json(index_, 1) + "\n");
  }

  Status write_shard(size_t number, const Share& share, uint64_t& done) {
    std::vector<std::vector<std::byte>> data(columns_.size());
    std::vector<int64_t> ids, positions, owners, offsets{0};
    for (size_t s = share.first; s < share.end; ++s) {
      if (options_.progress && !options_.progress(done, collection_.tokens))
        return Error{
            Code::kCancelled, "was interrupted; resume to go on", {folder_.string(), {}, {}}};
      Trace trace(engine_, sequences_[s]);
      for (const Read& read : options_.reads) trace.read(read);
      trace.edit(options_.edits);
      PHIDIAS_TRY(const Traced traced, trace.run());
      for (size_t c = 0; c < columns_.size(); ++c) {
        const std::vector<float>& values = traced.entries[c].tensor.floats;
        const size_t begin = data[c].size();
        const FormatRow& format = format_row(format_);
        data[c].resize(begin + format.row_bytes(values.size()));
        format.encode(values.data(), data[c].data() + begin, values.size());
      }
      for (size_t i = 0; i < sequences_[s].size(); ++i) {
        ids.push_back(sequences_[s][i]);
        positions.push_back(static_cast<int64_t>(i));
        owners.push_back(static_cast<int64_t>(s));
      }
      offsets.push_back(static_cast<int64_t>(ids.size()));
      done += sequences_[s].size();
    }
    std::vector<SafetensorsData> tensors;
    for (const auto& [name, list] :
         {std::pair<const char*, const std::vector<int64_t>*>{"token_ids", &ids},
          {"positions", &positions},
          {"sequence", &owners},
          {"sequence_offsets", &offsets}}) {
      tensors.push_back({{name, "I64", {list->size()}}, std::as_bytes(std::span(*list))});
    }
    for (size_t c = 0; c < columns_.size(); ++c) {
      std::vector<uint64_t> shape{share.tokens};
      shape.insert(shape.end(), columns_[c].row_shape.begin(), columns_[c].row_shape.end());
      tensors.push_back(
          {{columns_[c].name, std::string(format_row(format_).safetensors), shape}, data[c]});
    }
    const std::filesystem::path path = folder_ / shard_name(number);
    PHIDIAS_CHECK_OK(write_safetensors(path, std::move(tensors)));
    PHIDIAS_TRY(const auto written, MappedFile::open(path));
    collection_.bytes += written->bytes().size();
    index_["shards"].push_back({{"file", shard_name(number)},
                                {"tokens", share.tokens},
                                {"first_sequence", share.first},
                                {"sequences", share.end - share.first},
                                {"sha256", sha256(written->bytes())}});
    return write_text(folder_ / "index.json", dump_json(index_, 1) + "\n");
  }

  Engine& engine_;
  const std::vector<std::vector<TokenId>>& sequences_;
  std::filesystem::path folder_;
  const CollectOptions& options_;
  std::vector<Column> columns_;
  Format format_ = Format::kBF16;
  Json index_;
  Collection collection_;
};

}  // namespace

Result<uint64_t> collected_bytes_per_token(const Model& model, const CollectOptions& options) {
  PHIDIAS_TRY(const Format format, dtype_format(options.dtype));
  PHIDIAS_TRY(const auto columns, columns_of(model.impl().spec, options));
  uint64_t bytes = 3 * sizeof(int64_t);
  for (const Column& column : columns) bytes += format_row(format).row_bytes(column.width);
  return bytes;
}

Result<Collection> collect(Engine& engine, const std::vector<std::vector<TokenId>>& sequences,
                           const std::filesystem::path& folder, const CollectOptions& options) {
  return DatasetWriter(engine, sequences, folder, options).run();
}

}  // namespace phidias
