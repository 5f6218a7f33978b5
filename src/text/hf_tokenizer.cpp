#include "text/hf_tokenizer.h"

#include <array>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "text/family.h"
#include "text/hf_components.h"
#include "text/tiktoken_tokenizer.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 512U << 20;

// The tokens that a config names, in the order in which templates get them.
constexpr std::array<const char*, 7> kNamedTokens = {
    "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"};

Error in_file(Error error, const std::string& file) {
  error.place.file = file;
  return error;
}

// Named files and where they lie, for errors.
struct Source {
  const ReadNamedFile& read;
  const std::string& place;

  std::string where(std::string_view name) const { return place + "/" + std::string(name); }
};

// An absent file is an empty object.
Result<Json> read_config(const Source& source, std::string_view name) {
  PHIDIAS_TRY(const auto text, source.read(name));
  if (!text) return Json(Json::object());
  PHIDIAS_TRY(Json config, parse_json(*text, source.where(name)));
  if (!config.is_object())
    return Error{Code::kCorrupt, "must be a JSON object", {source.where(name), {}, {}}};
  return config;
}

// A token is named by its text, or by an object with its text and flags.
std::optional<std::string> named_token(const Json& config, const char* name) {
  const auto at = config.find(name);
  if (at == config.end()) return std::nullopt;
  if (at->is_string()) return at->get<std::string>();
  if (!at->is_object()) return std::nullopt;
  const auto content = at->find("content");
  if (content == at->end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

bool flag(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_boolean() && at->get<bool>();
}

// Markers that the configs have and tokenizer.json has not; where both have one, tokenizer.json is
// right.
Status add_missing_markers(const Json& config, const Json& added_tokens, AddedTokens& added) {
  const auto add = [&](AddedToken token) -> Status {
    if (added.find(token.text) != nullptr || added.find(token.id) != nullptr) return {};
    return added.add(std::move(token));
  };
  if (const auto decoder = config.find("added_tokens_decoder");
      decoder != config.end() && decoder->is_object()) {
    for (const auto& [key, value] : decoder->items()) {
      const bool number = !key.empty() && key.size() < 9 &&
                          key.find_first_not_of("0123456789") == std::string::npos;
      if (!number || !value.is_object() || !value.contains("content") ||
          !value["content"].is_string()) {
        return Error{Code::kCorrupt,
                     "must have ids as keys, and objects with \"content\"",
                     {{}, {}, "/added_tokens_decoder/" + key}};
      }
      PHIDIAS_CHECK_OK(add({std::stoi(key), value["content"].get<std::string>(),
                            flag(value, "special"), flag(value, "lstrip"), flag(value, "rstrip"),
                            flag(value, "single_word"), flag(value, "normalized")}));
    }
  }
  for (const auto& [text, id] : added_tokens.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxVocabularySize) {
      return Error{Code::kCorrupt, "must be a token id", {{}, {}, "/" + text}};
    }
    AddedToken token;
    token.id = static_cast<TokenId>(id.get<uint64_t>());
    token.text = text;
    PHIDIAS_CHECK_OK(add(std::move(token)));
  }
  return {};
}

// A template, or a list of them with names.
Result<std::optional<std::string>> template_of(const Json& config, const std::string& file) {
  const auto at = config.find("chat_template");
  if (at == config.end() || at->is_null()) return std::optional<std::string>();
  if (at->is_string()) return std::optional<std::string>(at->get<std::string>());
  if (at->is_array()) {
    for (const Json& entry : *at) {
      if (!entry.is_object() || entry.value("name", Json()) != "default") continue;
      const auto source = entry.find("template");
      if (source != entry.end() && source->is_string())
        return std::optional<std::string>(source->get<std::string>());
    }
    return std::optional<std::string>();
  }
  return Error{
      Code::kCorrupt, "must be a template or a list of named ones", {file, {}, "/chat_template"}};
}

Result<std::optional<std::string>> find_chat_template(const Source& source, const Json& config) {
  PHIDIAS_TRY(auto jinja, source.read("chat_template.jinja"));
  if (jinja) return jinja;
  constexpr std::string_view kAlone = "chat_template.json";
  PHIDIAS_TRY(const Json alone, read_config(source, kAlone));
  PHIDIAS_TRY(auto found, template_of(alone, source.where(kAlone)));
  if (found) return found;
  return template_of(config, source.where("tokenizer_config.json"));
}

Result<TokenizerImpl> load_parts(const fs::path& folder) {
  std::error_code ignored;
  const fs::path json = folder / "tokenizer.json";
  if (fs::exists(json, ignored)) {
    PHIDIAS_TRY(const std::string text, read_text_file(json, kMaxFileBytes));
    return parse_tokenizer_json(text, json.string());
  }
  PHIDIAS_TRY(const auto ranks, find_tiktoken_file(folder));
  if (ranks) {
    PHIDIAS_TRY(const std::string text, read_text_file(*ranks, kMaxFileBytes));
    return parse_tiktoken(text, ranks->string());
  }
  const bool sentencepiece = fs::exists(folder / "tokenizer.model", ignored);
  return Error{Code::kNotFound,
               sentencepiece
                   ? "has tokenizer.model alone; the tokenizer.json that belongs to it is needed"
                   : "has no tokenizer: neither tokenizer.json nor a .tiktoken file",
               {folder.string(), {}, {}}};
}

// Adds what tokenizer.json leaves open.
Result<std::shared_ptr<const Tokenizer>> finish(TokenizerImpl parts, const Source& source) {
  constexpr std::string_view kConfig = "tokenizer_config.json";
  PHIDIAS_TRY(const Json config, read_config(source, kConfig));
  PHIDIAS_TRY(const Json special_tokens, read_config(source, "special_tokens_map.json"));
  PHIDIAS_TRY(const Json added_tokens, read_config(source, "added_tokens.json"));

  Status status = add_missing_markers(config, added_tokens, parts.added);
  if (!status.ok()) return in_file(std::move(status).error(), source.where(kConfig));
  for (const MarkerAt& marker : markers_shown_by_published_code()) {
    const AddedToken* token = parts.added.find(marker.text);
    if (token == nullptr || token->id != marker.id) continue;
    AddedToken shown = *token;
    shown.special = false;
    PHIDIAS_CHECK_OK(parts.added.add(std::move(shown)));
  }

  const auto set = [&](const char* name, std::optional<TokenId>& id) {
    for (const auto& [token, text] : parts.template_tokens) {
      if (token == name) id = parts.find(text);
    }
  };
  for (const char* name : kNamedTokens) {
    auto text = named_token(config, name);
    if (!text) text = named_token(special_tokens, name);
    if (text) parts.template_tokens.emplace_back(name, std::move(*text));
  }
  set("bos_token", parts.bos);
  set("eos_token", parts.eos);
  set("pad_token", parts.pad);

  // These decide, where present, whatever the template of the post-processor says.
  const JsonReader reader(config, source.where(kConfig));
  PHIDIAS_TRY(const auto adds_bos, reader.optional_bool("add_bos_token"));
  PHIDIAS_TRY(const auto adds_eos, reader.optional_bool("add_eos_token"));
  if (adds_bos) parts.set_adds_bos(*adds_bos);
  if (adds_eos) parts.set_adds_eos(*adds_eos);

  PHIDIAS_TRY(parts.chat_template, find_chat_template(source, config));
  return make_tokenizer(std::move(parts));
}

}  // namespace

Result<TokenizerImpl> parse_tokenizer_json(std::string_view json, const std::string& file) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto reason = parser.parse(json.data(), json.size()).get(root);
      reason != simdjson::SUCCESS) {
    return Error{Code::kCorrupt,
                 std::string("is not JSON: ") + simdjson::error_message(reason),
                 {file, {}, {}}};
  }
  TokenizerImpl parts;
  const auto read = [&]() -> Status {
    const DomReader top(root, "");
    PHIDIAS_TRY(const DomReader model, top.child("model"));
    PHIDIAS_CHECK_OK(read_bpe(model, parts));
    PHIDIAS_TRY(const auto added, top.list("added_tokens"));
    PHIDIAS_CHECK_OK(read_added_tokens(added, parts.added));
    if (top.has("normalizer")) {
      PHIDIAS_TRY(const DomReader node, top.child("normalizer"));
      PHIDIAS_CHECK_OK(read_normalizer(node, parts.normalizer));
    }
    if (top.has("pre_tokenizer")) {
      PHIDIAS_TRY(const DomReader node, top.child("pre_tokenizer"));
      PHIDIAS_CHECK_OK(read_pre_tokenizer(node, parts.pre_tokenizer));
    }
    if (top.has("post_processor")) {
      PHIDIAS_TRY(const DomReader node, top.child("post_processor"));
      PHIDIAS_CHECK_OK(read_post_processor(node, parts));
    }
    PHIDIAS_TRY(const DomReader decoder, top.child("decoder"));
    return read_decoder(decoder, parts.decoder);
  };
  Status status = read();
  if (!status.ok()) return in_file(std::move(status).error(), file);
  return parts;
}

Result<std::shared_ptr<const Tokenizer>> load_hf_tokenizer(const fs::path& folder) {
  PHIDIAS_TRY(TokenizerImpl parts, load_parts(folder));
  const ReadNamedFile read = [&](std::string_view name) -> Result<std::optional<std::string>> {
    std::error_code ignored;
    if (!fs::exists(folder / name, ignored)) return std::optional<std::string>();
    PHIDIAS_TRY(std::string text, read_text_file(folder / name));
    return std::optional<std::string>(std::move(text));
  };
  return finish(std::move(parts), {read, folder.string()});
}

Result<std::shared_ptr<const Tokenizer>> load_hf_tokenizer(const ReadNamedFile& read,
                                                           const std::string& place) {
  constexpr std::string_view kTokenizer = "tokenizer.json";
  const Source source{read, place};
  PHIDIAS_TRY(const auto json, read(kTokenizer));
  if (json) {
    PHIDIAS_TRY(TokenizerImpl parts, parse_tokenizer_json(*json, source.where(kTokenizer)));
    return finish(std::move(parts), source);
  }
  PHIDIAS_TRY(const auto ranks, read(kTiktokenFile));
  if (!ranks) return Error{Code::kNotFound, "is missing", {source.where(kTokenizer), {}, {}}};
  PHIDIAS_TRY(TokenizerImpl parts, parse_tiktoken(*ranks, source.where(kTiktokenFile)));
  return finish(std::move(parts), source);
}

}  // namespace phidias
