#include "api/model_files.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "formats/carried_files.h"
#include "model/config.h"
#include "model/registry.h"
#include "model/vision/config.h"
#include "text/gguf_tokenizer.h"

namespace phidias {
namespace {

constexpr size_t kLongArray = 64;  // of GGUF metadata: left out of what people read

Json to_json(const GgufFile& file) {
  Json json = Json::object();
  for (const auto& [key, value] : file.metadata) {
    json[key] = std::visit(
        [](const auto& content) -> Json {
          if constexpr (std::is_same_v<std::decay_t<decltype(content)>, GgufValue::Array>) {
            return std::visit(
                [](const auto& list) -> Json {
                  if (list.size() > kLongArray) return "array of " + std::to_string(list.size());
                  Json array = Json::array();
                  for (const auto& entry : list) array.push_back(entry);
                  return array;
                },
                content);
          } else {
            return content;
          }
        },
        value.value);
  }
  return json;
}

// 64-bit FNV-1a of the lists' bits.
std::string digest(const LongRope& rope) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const auto* list : {&rope.short_factors, &rope.long_factors}) {
    for (const float factor : *list) {
      uint32_t bits = 0;
      std::memcpy(&bits, &factor, sizeof bits);
      for (int shift = 0; shift < 32; shift += 8)
        hash = (hash ^ ((bits >> shift) & 0xFF)) * 0x100000001b3U;
    }
  }
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

// A small file beside config.json, wherever it lies; nullopt where it is not there.
using ReadSmallFile = std::function<Result<std::optional<std::string>>(std::string_view name)>;

// How images are prepared and where generation stops stand in files of their own.
Status read_small_files(const ReadSmallFile& read, ModelFiles& files) {
  const auto where = [&](std::string_view name) { return (files.path / name).string(); };
  constexpr std::string_view kPreprocessor = "preprocessor_config.json";
  if (files.spec.vision) {
    PHIDIAS_TRY(const auto text, read(kPreprocessor));
    if (text) {
      PHIDIAS_TRY(const Json json, parse_json(*text, where(kPreprocessor)));
      PHIDIAS_CHECK_OK(
          read_image_processing(JsonReader(json, where(kPreprocessor)), *files.spec.vision));
    } else {
      files.spec.notices.push_back(
          "there is no preprocessor_config.json: images are cut into at most " +
          std::to_string(files.spec.vision->crops) + " tiles");
    }
  }
  constexpr std::string_view kGeneration = "generation_config.json";
  PHIDIAS_TRY(const auto text, read(kGeneration));
  if (!text) return {};
  PHIDIAS_TRY(const Json generation, parse_json(*text, where(kGeneration)));
  PHIDIAS_TRY(files.generation_stops,
              token_ids(JsonReader(generation, where(kGeneration)), "eos_token_id"));
  return {};
}

// The first by name; empty where the folder has none.
std::string gguf_file_in(const std::filesystem::path& folder) {
  std::string first;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".gguf") && (first.empty() || name < first)) first = name;
  }
  return first;
}

Result<ModelFiles> open_folder(const std::filesystem::path& path) {
  ModelFiles files;
  files.path = path;
  const std::filesystem::path config_path = path / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(config_path, ignored)) {
    const std::string gguf = gguf_file_in(path);
    return Error{
        Code::kNotFound,
        "the folder has no config.json, so it is not a model in Hugging Face's layout" +
            (gguf.empty() ? "" : "; for a GGUF file name the file itself, such as " + gguf),
        {path.string(), {}, {}}};
  }
  PHIDIAS_TRY(files.config_json, read_text_file(config_path, 64U << 20));
  PHIDIAS_TRY(const Json config, parse_json(files.config_json, config_path.string()));
  PHIDIAS_TRY(files.spec, spec_from_config(JsonReader(config, config_path.string())));
  files.names = files.spec.tensor_names;
  const auto read = [&](std::string_view name) -> Result<std::optional<std::string>> {
    if (!std::filesystem::exists(path / name, ignored)) return std::optional<std::string>();
    PHIDIAS_TRY(std::string text, read_text_file(path / name, 16U << 20));
    return std::optional<std::string>(std::move(text));
  };
  PHIDIAS_CHECK_OK(read_small_files(read, files));
  auto checkpoint = Checkpoint::open(path);
  if (checkpoint.ok()) {
    files.checkpoint = std::move(*checkpoint);
  } else if (checkpoint.error().code != Code::kNotFound ||
             std::filesystem::exists(path / "model.safetensors.index.json", ignored)) {
    return std::move(checkpoint).error();
  }
  return files;
}

Result<ModelFiles> open_gguf(const std::filesystem::path& path) {
  ModelFiles files;
  files.path = path;
  PHIDIAS_TRY(files.checkpoint, Checkpoint::open(path));
  if (!files.checkpoint.gguf)
    return Error{Code::kUnsupported, "is not a .gguf file or a folder", {path.string(), {}, {}}};
  files.config_json = dump_json(to_json(*files.checkpoint.gguf));
  const GgufFile& gguf = *files.checkpoint.gguf;
  PHIDIAS_TRY(files.spec, spec_from_gguf(gguf));
  files.names = files.spec.tensor_names;
  PHIDIAS_CHECK_OK(read_small_files(
      [&gguf](std::string_view name) { return gguf.optional_string(carried_file_key(name)); },
      files));
  return files;
}

VisionInfo describe(const VisionSpec& spec) {
  VisionInfo info;
  info.num_layers = spec.layers;
  info.hidden_size = spec.width;
  info.intermediate_size = spec.ffn_width;
  info.num_heads = spec.heads;
  info.tile_size = spec.side;
  info.patch_size = spec.patch;
  info.crops = spec.crops;
  // The most lines, and so the most separators, has a column of tiles.
  info.max_tokens = static_cast<uint32_t>(spec.image_rows(spec.crops, 1));
  return info;
}

}  // namespace

Result<ModelFiles> open_model_files(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? open_folder(path) : open_gguf(path);
}

ModelInfo describe(const ModelFiles& files) {
  const ModelSpec& spec = files.spec;
  ModelInfo info;
  info.type = spec.type;
  info.path = files.path.string();
  info.num_layers = spec.layers;
  info.hidden_size = spec.width;
  info.intermediate_size = spec.ffn_width;
  info.num_heads = spec.attention.heads;
  info.num_kv_heads = spec.attention.kv_heads;
  info.head_dim = info.qk_head_dim = spec.attention.head_dim;
  info.rotary_dim = spec.rope.rotary_dims;
  info.vocab_size = spec.vocab;
  info.max_context = spec.max_context;
  info.window = spec.mask.window;
  if (const auto& blocks = spec.mask.blocks) {
    info.sparse_block = blocks->block;
    info.sparse_local_blocks = blocks->local_blocks;
    info.sparse_stride = blocks->stride;
    info.sparse_layers =
        spec.layers - (blocks->dense_every > 0 ? spec.layers / blocks->dense_every : 0);
  }
  if (spec.experts) {
    info.experts = spec.experts->count;
    info.experts_per_token = ExpertsSpec::kPerRow;
  }
  info.rope_theta = spec.rope.theta;
  if (spec.rope.long_rope) {
    info.original_context = spec.rope.long_rope->original_context;
    info.rope_magnitude = spec.rope.long_rope->long_magnitude;
    info.rope_factors_digest = digest(*spec.rope.long_rope);
  }
  info.tied_head = spec.tied_head;
  if (spec.vision) info.vision = describe(*spec.vision);
  info.tensors = files.checkpoint.tensors.tensors.size();
  info.files = files.checkpoint.tensors.files;
  info.notices = spec.notices;
  return info;
}

void describe_weights(const ModelSpec& spec, ModelWeights& weights, ModelInfo& info) {
  info.weight_bytes = weights.bytes(spec);
  info.bytes_per_token = weights.bytes_per_token(spec);
  info.parameters = weights.vector_values();
  weights.for_each_matrix(spec, [&info](const Matrix& matrix) {
    info.parameters += matrix.rows * matrix.cols;
    for (const RowBlock& block : matrix.blocks) {
      const FormatRow& format = format_row(block.format);
      auto at = std::find_if(info.weight_types.begin(), info.weight_types.end(),
                             [&](const auto& entry) { return entry.first == format.name; });
      if (at == info.weight_types.end())
        at = info.weight_types.insert(at, {std::string(format.name), 0});
      at->second += block.bytes(matrix.cols);
    }
  });
}

std::vector<TokenId> stop_ids_of(const ModelFiles& files, const Tokenizer* tokenizer) {
  std::set<TokenId> ids(files.spec.end_ids.begin(), files.spec.end_ids.end());
  ids.insert(files.generation_stops.begin(), files.generation_stops.end());
  if (tokenizer != nullptr) {
    const auto own = tokenizer->stop_ids();
    ids.insert(own.begin(), own.end());
  }
  ids.erase(ids.lower_bound(static_cast<TokenId>(files.spec.vocab)), ids.end());
  return {ids.begin(), ids.end()};
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer_for(const ModelFiles& files) {
  auto tokenizer = files.checkpoint.gguf ? tokenizer_from_gguf(*files.checkpoint.gguf)
                                         : Tokenizer::load(files.path);
  if (!tokenizer.ok()) {
    if (tokenizer.error().code == Code::kNotFound) return std::shared_ptr<const Tokenizer>();
    return std::move(tokenizer).error();
  }
  if ((*tokenizer)->size() > files.spec.vocab) {
    return Error{Code::kCorrupt,
                 "the tokenizer has ids up to " + std::to_string((*tokenizer)->size() - 1) +
                     ", but the embedding has only " + std::to_string(files.spec.vocab) +
                     " rows: it belongs to another model",
                 {files.path.string(), {}, {}}};
  }
  return std::move(*tokenizer);
}

Result<FoundTemplate> find_chat_template(const ModelFiles& files, const Tokenizer* tokenizer) {
  FoundTemplate found{.chat_template = nullptr, .origin = "none"};
  if (tokenizer != nullptr) {
    if (const auto source = tokenizer->chat_template()) {
      PHIDIAS_TRY(found.chat_template, ChatTemplate::parse(*source));
      found.origin = "from the file";
      return found;
    }
  }
  if (!files.spec.chat_template.empty()) {
    PHIDIAS_TRY(found.chat_template, ChatTemplate::builtin(files.spec.chat_template));
    found.origin = "built in: " + files.spec.chat_template;
  }
  return found;
}

Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const std::filesystem::path& path) {
  // The file's own needs no configuration: a folder may hold a tokenizer alone.
  auto tokenizer = Tokenizer::load(path);
  if (tokenizer.ok()) {
    if (const auto source = (*tokenizer)->chat_template()) return ChatTemplate::parse(*source);
  }
  auto files = open_model_files(path);
  if (files.ok()) {
    PHIDIAS_TRY(const FoundTemplate found, find_chat_template(*files, nullptr));
    if (found.chat_template) return found.chat_template;
  }
  return Error{Code::kNotFound,
               "has no chat template, and none is built in for this model",
               {path.string(), {}, {}}};
}

}  // namespace phidias
